#!/usr/bin/env python3
"""Trains word vectors with gensim, to compare its speed with that of intendant-word2vec.

Prints the words per CPU second and per second, of the training and of the whole run. Words are all words of
the text, as the examples in a report of intendant-word2vec; a CPU second is user and system time of all
threads of the process. The whole run includes the pass that counts words, but neither the start of Python nor
the reading of the text into memory.

gensim is not part of this project; install it in an environment of its own, and run both programs in turn, as
other load on a machine changes both:

    python3 -m venv DIR && DIR/bin/pip install gensim==4.4.0
    OMP_NUM_THREADS=1 DIR/bin/python scripts/compare/gensim.py TEXT
    intendant-word2vec --technique single --epochs 1 --data TEXT --report REPORT

The defaults are those of intendant-word2vec, except for --epochs.
"""

import argparse
import json
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="text file, words between white space, a sentence or an article a line")
    parser.add_argument("--words", type=int, default=0, help="read so many words; 0 reads all (default)")
    parser.add_argument("--dim", type=int, default=100, help="numbers of a vector (100)")
    parser.add_argument("--window", type=int, default=5, help="words on each side, at most (5)")
    parser.add_argument("--negatives", type=int, default=5, help="negative samples of a pair (5)")
    parser.add_argument("--sample", type=float, default=1e-4, help="skip words that are more frequent (1e-4)")
    parser.add_argument("--min-count", type=int, default=5, help="leave out rarer words (5)")
    parser.add_argument("--sentence-words", type=int, default=1000, help="longer lines are cut (1000)")
    parser.add_argument("--lr", type=float, default=0.025, help="learning rate at the start (0.025)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the text (1)")
    parser.add_argument("--workers", type=int, default=1, help="training threads; one more prepares (1)")
    parser.add_argument("--seed", type=int, default=1, help="seed (1)")
    parser.add_argument(
        "--input",
        choices=["memory", "file", "lines"],
        default="memory",
        help="where gensim takes words from: lists in memory, its reader of files (corpus_file), which trains"
        " a word a token of the file and cuts no lines, or an iterator that splits lines (default: memory)",
    )
    parser.add_argument("--export", metavar="FILE", help="write the vectors in the text format")
    parser.add_argument("--json", action="store_true", help="print one object instead of lines")
    return parser.parse_args()


def sentences(path, sentence_words, words_max):
    """The lines of a text as lists of words, long ones cut, up to a number of words."""
    left = words_max if words_max > 0 else sys.maxsize
    with open(path, encoding="utf-8", errors="surrogateescape") as text:
        for line in text:
            words = line.split()[:left]
            left -= len(words)
            for start in range(0, len(words), sentence_words):
                yield words[start : start + sentence_words]
            if left == 0:
                return


class Lines:
    """An iterable over the sentences of a file, which is read again in each pass."""

    def __init__(self, options):
        self.options = options

    def __iter__(self):
        options = self.options
        return sentences(options.text, options.sentence_words, options.words)


def main():
    options = arguments()
    if options.input == "file" and options.words:
        sys.exit("--words needs --input memory or lines: gensim reads a file as a whole")
    # This file has the name of the package, and Python looks beside it first.
    sys.path.pop(0)
    try:
        import gensim
        from gensim.models import Word2Vec
    except ImportError as error:
        sys.exit(f"{error}: run this with the Python of an environment that has gensim (see --help)")

    if options.input == "file":
        corpus = {"corpus_file": options.text}
    elif options.input == "lines":
        corpus = {"corpus_iterable": Lines(options)}
    else:
        corpus = {"corpus_iterable": list(Lines(options))}
    model = Word2Vec(
        vector_size=options.dim,
        window=options.window,
        negative=options.negatives,
        sample=options.sample,
        min_count=options.min_count,
        alpha=options.lr,
        min_alpha=options.lr * 1e-4,
        workers=options.workers,
        seed=options.seed,
        sg=1,
        hs=0,
    )
    start = (time.process_time(), time.perf_counter())
    model.build_vocab(**corpus)
    counted = (time.process_time(), time.perf_counter())
    length = {"total_words": model.corpus_total_words} if options.input == "file" else {}
    _, words = model.train(**corpus, **length, total_examples=model.corpus_count, epochs=options.epochs)
    end = (time.process_time(), time.perf_counter())
    trained = [b - a for a, b in zip(counted, end)]
    whole = [b - a for a, b in zip(start, end)]
    result = {
        "gensim": gensim.__version__,
        "words": words,
        "vocabulary": len(model.wv),
        "train_cpu_seconds": trained[0],
        "train_seconds": trained[1],
        "train_words_per_cpu_second": words / trained[0],
        "train_words_per_second": words / trained[1],
        "whole_cpu_seconds": whole[0],
        "whole_seconds": whole[1],
        "whole_words_per_cpu_second": words / whole[0],
        "whole_words_per_second": words / whole[1],
    }
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}")
    if options.export:
        model.wv.save_word2vec_format(options.export)


if __name__ == "__main__":
    main()
