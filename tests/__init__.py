import tests.support.shapes  # noqa: F401 - jaxtyping finds the checker of pyproject.toml as an attribute of this package
