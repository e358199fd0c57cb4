"""Writes the container image, as the archive of an OCI layout with one image per architecture.

The image contains only the program, which runs as a user without a name or rights. No daemon is
needed to build it. https://github.com/opencontainers/image-spec describes the format.
"""

import hashlib
import json

from common import *

# The number that "distroless" images use for a user without rights.
USER = "65532:65532"

blobs = {}


def add(media, content):
    digest = hashlib.sha256(content).hexdigest()
    blobs[f"blobs/sha256/{digest}"] = content
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}


def encode(value):
    return json.dumps(value, sort_keys=True).encode()


def image(platform):
    # A directory to mount the user's files on, and a place for the program.
    files = [("workspace/", b"", False), (NAME, platform.program.read_bytes(), True)]
    layer = tar(files + [(file.name, file.read_bytes(), False) for file in LICENSES])
    config = {
        "architecture": platform.image,
        "os": "linux",
        "config": {
            "User": USER,
            "Entrypoint": [f"/{NAME}"],
            "Cmd": ["/workspace"],
            "WorkingDir": "/workspace",
            "Labels": {
                "io.modelcontextprotocol.server.name": MCP_NAME,
                "org.opencontainers.image.description": DESCRIPTION,
                "org.opencontainers.image.licenses": LICENSE,
                "org.opencontainers.image.source": REPOSITORY,
                "org.opencontainers.image.version": VERSION,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    kind = "application/vnd.oci.image"
    packed = gzip.compress(layer, mtime=0)
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": add(f"{kind}.config.v1+json", encode(config)),
        "layers": [add(f"{kind}.layer.v1.tar+gzip", packed)],
    }
    described = add(f"{kind}.manifest.v1+json", encode(manifest))
    return described | {"platform": {"os": "linux", "architecture": platform.image}}


index = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.index.v1+json",
    "manifests": [image(platform) for platform in built() if platform.image],
}
# Tools take the image of the name that the layout's own index gives.
named = add(index["mediaType"], encode(index))
named["annotations"] = {"org.opencontainers.image.ref.name": VERSION}
files = {
    "oci-layout": encode({"imageLayoutVersion": "1.0.0"}),
    "index.json": encode(index | {"manifests": [named]}),
    **blobs,
}
path = OUT / f"{NAME}-{VERSION}-image.tar"
path.write_bytes(tar([(name, content, False) for name, content in files.items()]))
report(path)
