"""What pyproject.toml cannot say: where JAX keeps the header that the C function is compiled against."""

import os
from pathlib import Path

import jaxlib
from setuptools import Extension, setup

HERE = "src/coterie/mechanisms"

# Without it, everything works and some of it more slowly; COTERIE_PLAIN=1 makes the wheel that runs anywhere.
compiled = Extension(
    "coterie.mechanisms._onepass",
    sources=[f"{HERE}/onepass.c"],
    depends=[f"{HERE}/onepass_vectors.h"],
    include_dirs=[str(Path(jaxlib.__file__).parent / "include")],
    extra_compile_args=["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math"],
    libraries=["m"],
    optional=True,
)
setup(ext_modules=[] if os.environ.get("COTERIE_PLAIN") else [compiled])
