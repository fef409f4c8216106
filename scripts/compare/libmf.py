#!/usr/bin/env python3
"""Factorises a matrix with LIBMF, to compare its speed and quality with those of intendant-mf.

Prints, for each number of passes, the CPU seconds and seconds of the training, those of the mean pass, and the
root mean squared error on the test entries. LIBMF prepares its blocks before the first pass, so the seconds of
a pass are also given as the difference between the longest and the shortest training.

LIBMF is not part of this project. Install it in an environment of its own, compiled for processors with AVX,
and run both programs in turn, as other load on a machine changes both:

    python3 -m venv DIR
    CXXFLAGS="-O3 -DUSEAVX -mavx" DIR/bin/pip install --no-binary libmf numpy libmf==0.9.2
    DIR/bin/python scripts/compare/libmf.py TRAIN TEST
    intendant-mf --technique single --data TRAIN --test TEST --report REPORT

TRAIN and TEST are tables with row, column and value on each line; --generate writes such a pair of files.
"""

import argparse
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("train", help="table of the training entries")
    parser.add_argument("test", help="table of the test entries")
    parser.add_argument(
        "--generate",
        metavar="ROWSxCOLUMNSxENTRIES",
        help="write both tables first: random cells of a matrix of rank 4 with noise, 1 % of them for the test",
    )
    parser.add_argument("--rank", type=int, default=100, help="factors of a row or column (100)")
    parser.add_argument("--passes", default="2,12", help="numbers of passes over the entries (2,12)")
    parser.add_argument("--threads", type=int, default=1, help="training threads (1)")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate (0.1)")
    parser.add_argument("--l2", type=float, default=0.05, help="weight of the squares of factors (0.05)")
    parser.add_argument("--seed", type=int, default=1, help="seed of --generate (1)")
    return parser.parse_args()


def generate(numpy, size, seed, train, test):
    """Writes the tables."""
    rows, columns, entries = (int(number) for number in size.split("x"))
    random = numpy.random.default_rng(seed)
    left, right = (random.normal(size=(count, 4)) for count in (rows, columns))
    cells = numpy.unique(random.integers(rows * columns, size=entries))
    row, column = cells // columns, cells % columns
    value = (left[row] * right[column]).sum(axis=1) / 2 + 0.5 * random.normal(size=len(cells))
    held_out = random.random(len(cells)) < 0.01
    for path, chosen in ((train, ~held_out), (test, held_out)):
        table = numpy.column_stack((row[chosen], column[chosen], value[chosen]))
        numpy.savetxt(path, table, fmt=("%d", "%d", "%.6g"), delimiter="\t")


def main():
    given = arguments()
    # The folder of this program comes first, and in it the program itself is called libmf.
    sys.path.pop(0)
    try:
        import numpy
        from libmf import mf
    except ImportError as error:
        sys.exit(f"{error}: install numpy and libmf as --help says")
    if given.generate:
        generate(numpy, given.generate, given.seed, given.train, given.test)
    train, test = (numpy.loadtxt(path, dtype=numpy.float32) for path in (given.train, given.test))
    times = []
    for passes in sorted(int(number) for number in given.passes.split(",")):
        model = mf.MF(
            k=given.rank,
            nr_threads=given.threads,
            nr_iters=passes,
            eta=given.lr,
            lambda_p2=given.l2,
            lambda_q2=given.l2,
            lambda_p1=0.0,
            lambda_q1=0.0,
            quiet=True,
        )
        cpu, wall = time.process_time(), time.perf_counter()
        model.fit(train)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        # The package's own predictions need another memory layout than it says.
        rows, columns = model.p_factors(), model.q_factors()
        row, column = (test[:, side].astype(int) for side in (0, 1))
        if row.max() >= len(rows) or column.max() >= len(columns):
            sys.exit("the test table has rows or columns that the training table lacks")
        errors = (rows[row] * columns[column]).sum(axis=1) - test[:, 2]
        rmse = float(numpy.sqrt(numpy.mean(errors.astype(numpy.float64) ** 2)))
        times.append((passes, cpu, wall))
        print(
            f"passes {passes} cpu_seconds {cpu:.3f} seconds {wall:.3f} "
            f"cpu_seconds_per_pass {cpu / passes:.4f} seconds_per_pass {wall / passes:.4f} rmse {rmse:.4f}"
        )
    (first, cpu, wall), (last, more_cpu, more_wall) = times[0], times[-1]
    if last > first:
        print(
            f"between: cpu_seconds_per_pass {(more_cpu - cpu) / (last - first):.4f} "
            f"seconds_per_pass {(more_wall - wall) / (last - first):.4f}"
        )


if __name__ == "__main__":
    main()
