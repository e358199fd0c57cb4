"""Writes the archive of each program: with its manual page, its completions and its documentation.

The program for the system that runs this writes the manual page and the completions of all.
"""

import platform as host
import subprocess

from common import *

GENERATED = {
    "man": f"man/{NAME}.1",
    "complete-bash": f"completions/{NAME}.bash",
    "complete-fish": f"completions/{NAME}.fish",
    "complete-zsh": f"completions/_{NAME}",
    "complete-powershell": f"completions/_{NAME}.ps1",
}


def generated():
    machine = {"arm64": "aarch64"}.get(host.machine(), host.machine())
    system = {"Linux": "linux", "Darwin": "darwin"}[host.system()]
    own = [it for it in built() if it.target.startswith(machine) and it.npm[0] == system]
    program = (own or sys.exit("no program for this system has been built"))[0].program
    run = lambda kind: subprocess.check_output([program, "--generate", kind])
    return [(file, run(kind), False) for kind, file in GENERATED.items()]


# How an archive is called. `[package.metadata.binstall]` of server/Cargo.toml must agree.
def stem(platform):
    return f"{NAME}-{VERSION}-{platform.target}"


if __name__ == "__main__":
    texts = [TOP / "server/README.md", TOP / "server/OPERATION.md", TOP / "CHANGELOG.md", *LICENSES]
    common = generated() + [(file.name, file.read_bytes(), False) for file in texts]
    for platform in built():
        files = [(platform.file, platform.program.read_bytes(), True), *common]
        files = [(f"{stem(platform)}/{name}", content, mode) for name, content, mode in files]
        is_windows = platform.npm[0] == "win32"
        write, end = (write_zip, "zip") if is_windows else (write_tar_gz, "tar.gz")
        report(write(OUT / "archives" / f"{stem(platform)}.{end}", files))
