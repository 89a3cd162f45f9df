"""The command `python -m gateway.contract`, which writes the OpenAPI and AsyncAPI files."""

from pathlib import Path

from gateway.contract.reference import Reference

PLACE = Path(__file__).parents[2] / "openapi"


def main() -> None:
    """Write openapi/openapi.json and openapi/asyncapi.json."""
    reference = Reference()
    (PLACE / "openapi.json").write_bytes(reference.openapi)
    (PLACE / "asyncapi.json").write_bytes(reference.asyncapi)
    print(f"wrote openapi.json and asyncapi.json in {PLACE}")


if __name__ == "__main__":
    main()
