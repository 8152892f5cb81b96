"""Write the modules that andes.proto generates, beside it. A test compares them."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("andes_jax", "remote", "protocol", "andes.proto")  # from ROOT: modules are imported by it
GENERATED = tuple(SOURCE.with_name(name) for name in ("andes_pb2.py", "andes_pb2.pyi", "andes_pb2_grpc.py"))


def generate(folder: Path) -> None:
    """Write the modules below an existing folder, at the same place as in the checkout."""
    from grpc_tools import protoc

    wellknown = resources.files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
    code = protoc.main(["protoc", f"-I{ROOT}", f"-I{wellknown}", *outputs, str(ROOT / SOURCE)])
    if code != 0:
        raise SystemExit(f"protoc ends with {code}")


if __name__ == "__main__":
    generate(ROOT)
    print("\n".join(map(str, GENERATED)), file=sys.stderr)
