"""What pyproject.toml cannot say: where JAX keeps the header that the C function is compiled against."""

from pathlib import Path

import jaxlib
from setuptools import Extension, setup

HERE = "src/coterie/mechanisms"

setup(
    ext_modules=[
        Extension(
            "coterie.mechanisms._onepass",
            sources=[f"{HERE}/onepass.c"],
            depends=[f"{HERE}/onepass_vectors.h"],
            include_dirs=[str(Path(jaxlib.__file__).parent / "include")],
            extra_compile_args=["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math"],
            libraries=["m"],
            optional=True,  # without it, everything works and some of it more slowly
        )
    ]
)
