"""What all packages have in common: the metadata, the platforms, and archives with the same bytes
each time. The metadata is that of server/Cargo.toml and of `[workspace.package]` in Cargo.toml.
"""

import gzip
import io
import pathlib
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass

TOP = pathlib.Path(__file__).resolve().parent.parent
# Where packaging/build puts the programs, and the other scripts put the packages.
OUT = TOP / "target/packages"

_workspace = tomllib.loads((TOP / "Cargo.toml").read_text())
MANIFEST = tomllib.loads((TOP / "server/Cargo.toml").read_text())
PACKAGE = MANIFEST["package"]
NAME = PACKAGE["name"]
VERSION = PACKAGE["version"]
DESCRIPTION = PACKAGE["description"]
LICENSE = PACKAGE["license"]
REPOSITORY = _workspace["workspace"]["package"]["repository"]
HOST, OWNER, PROJECT = REPOSITORY.removeprefix("https://").split("/")
# The name in the MCP registry, which every package must contain to prove that it belongs to it.
MCP_NAME = f"io.github.{OWNER}/{NAME}"
IMAGE = f"ghcr.io/{OWNER.lower()}/{NAME}"
LICENSES = [TOP / "LICENSE-APACHE", TOP / "LICENSE-MIT"]


@dataclass(frozen=True)
class Platform:
    """A target of the compiler, and how the packages' formats call it."""

    target: str
    wheel: str
    npm: tuple[str, str]
    image: str | None = None

    @property
    def file(self):
        return NAME + (".exe" if self.npm[0] == "win32" else "")

    @property
    def program(self):
        return OUT / "programs" / self.target / self.file

    @property
    def npm_name(self):
        return f"@{NAME}/{'-'.join(self.npm)}"


def _linux(machine):
    # A static program runs with any libc, and PEP 600 and 656 require to name the oldest versions.
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"


PLATFORMS = [
    Platform("x86_64-unknown-linux-musl", _linux("x86_64"), ("linux", "x64"), "amd64"),
    Platform("aarch64-unknown-linux-musl", _linux("aarch64"), ("linux", "arm64"), "arm64"),
    Platform("x86_64-pc-windows-gnu", "win_amd64", ("win32", "x64")),
    Platform("x86_64-apple-darwin", "macosx_10_12_x86_64", ("darwin", "x64")),
    Platform("aarch64-apple-darwin", "macosx_11_0_arm64", ("darwin", "arm64")),
]


def built():
    """Returns the platforms whose program has been built."""
    return [platform for platform in PLATFORMS if platform.program.exists()] or sys.exit(
        "no program has been built: packaging/build TARGET"
    )


def description():
    """Returns the text that the pages of registries show."""
    text = (TOP / "packaging/description.md").read_text()
    return text.replace("REPOSITORY", REPOSITORY).replace("MCP_NAME", MCP_NAME)


# An archive's content is a list of names, contents and whether the file can be executed. In an
# archive, all files are of the oldest time that the format can express.


def write_zip(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content, executable in files:
            entry = zipfile.ZipInfo(name)
            entry.create_system = 3  # Unix, which has modes
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


def tar(files):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content, executable in files:
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755 if executable else 0o644
            if name.endswith("/"):
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def write_tar_gz(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(tar(files), mtime=0))
    return path


def report(path):
    print(f"{path.stat().st_size / 1e6:5.1f} MB  {path.relative_to(TOP)}")
