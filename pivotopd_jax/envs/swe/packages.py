"""The releases that local tasks are made of: pure Python, small, permissively licensed, tests in the archive, no needs.

The quickest tests come first.
"""

from __future__ import annotations

from pivotopd_jax.envs.swe.archives import Package

PACKAGES = (
    Package(
        "ordered-set", "4.1.0", "694a8e44c87657c59292ede72891eb91d34131f6531463aab3009191c77364a8", "MIT",
        ("ordered_set",), ("test",),
    ),
    Package(
        "munch", "4.0.0", "542cb151461263216a4e37c3fd9afc425feeaf38aaa3025cd2a981fadb422235", "MIT",
        ("munch",), ("tests",),
    ),
    Package(
        "xmltodict", "0.13.0", "341595a488e3e01a85a9d8911d8912fd922ede5fecc4dce437eb4b6c8d037e56", "MIT",
        ("xmltodict.py",), ("tests",),
    ),
    Package(
        "parse", "1.20.2", "b41d604d16503c79d81af5165155c0b20f6c8d6c559efa66b4b695c3e5a0a0ce", "MIT",
        ("parse.py",), ("tests",),
    ),
    Package(
        "jmespath", "1.0.1", "90261b206d6defd58fdd5e85f478bf633a2901798906be2ad389150c5c60edbe", "MIT",
        ("jmespath",), ("tests",),
    ),
    Package(
        "voluptuous", "0.15.2", "6ffcab32c4d3230b4d2af3a577c87e1908a714a11f6f95570456b1849b0279aa", "BSD-3-Clause",
        ("voluptuous",), ("voluptuous/tests",),
    ),
    Package(
        "simpleeval", "1.0.3", "67bbf246040ac3b57c29cf048657b9cf31d4e7b9d6659684daa08ca8f1e45829", "MIT",
        ("simpleeval.py",), ("test_simpleeval.py",),
    ),
    Package(
        "isodate", "0.7.2", "4cd1aa0f43ca76f4a6c6c0292a85f40b35ec2e43e315b59f06e6d32171a953e6", "BSD-3-Clause",
        ("src/isodate",), ("tests",),
    ),
    Package(
        "inflection", "0.5.1", "1a29730d366e996aaacffb2f1f1cb9593dc38e2ddd30c91250c6dde09ea9b417", "MIT",
        ("inflection",), ("test_inflection.py",),
    ),
    Package(
        "cachetools", "5.5.0", "2cc24fb4cbe39633fb7badd9db9ca6295d766d9c2995f245725a46715d050f2a", "MIT",
        ("src",), ("tests",),
    ),
    Package(
        "schedule", "1.2.2", "15fe9c75fe5fd9b9627f3f19cc0ef1420508f9f9a46f45cd0769ef75ede5f0b7", "MIT",
        ("schedule",), ("test_schedule.py",),
    ),
    Package(
        "toolz", "1.0.0", "2c86e3d9a04798ac556793bced838816296a2f085017664e4995cb40a1047a02", "BSD-3-Clause",
        ("toolz",), ("toolz/tests",),
    ),
)  # fmt: skip
"""Each was seen to come to the same outcomes, three times over, with the pytest of `provision.PYTEST`."""
