"""What pyproject.toml cannot say: find the packages, and ship configs/ inside the wheel as andes_jax/configs."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["andes_jax*", "kernels_pallas*", "server*"]), "andes_jax.configs"],
    package_dir={"andes_jax.configs": "configs"},
)
