//! Generated matrices: of any size, skewed like real ones, with a known lower bound of the error.
//!
//! The known cells are distributed as if rows and columns were drawn independently, each by Zipf's law, until
//! there are enough *distinct* cells. Rows and columns that would be overfull then saturate. At 10 million
//! rows, a million columns, a billion cells and an exponent of 1.1, the most frequent column has 9.3 cells
//! per thousand, and the others have the shares of [thesis Tab. 4.4] (a test compares them). A Zipf law for
//! columns alone would be twice as skewed. Each cell is known independently of the others, with probability
//! `1 − exp(−t · row weight · column weight)`; `t` follows from the number of cells. The generator walks each
//! column in the order of its rows' probabilities by geometric jumps, in time proportional to the column's
//! cells. Memory is proportional to the number of cells, too.
//!
//! The value of a cell is the product of random factors, of variance 1, plus normal noise. The noise is
//! unpredictable.

use super::dataset::Dataset;
use super::entry::{ENTRIES_MAX, Entry};
use super::ids::Ids;
use intendant_core::random::{Permutation, stream};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// A matrix to be generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generator {
    /// Rows.
    pub rows: u32,
    /// Columns.
    pub columns: u32,
    /// Training entries. There are a tenth as many test entries in addition, [`Generator::TEST_MAX`] at most.
    pub entries: u64,
    /// Exponent of Zipf's law for rows and for columns; 0 for cells that are all equally likely.
    pub exponent: f64,
    /// Seed of everything.
    pub seed: u64,
}

/// A data set that cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GeneratorError {
    /// A name that is not of the expected form.
    #[error(
        "there is no data set builtin:{name}; there are builtin:zipf and builtin:uniform, and of other sizes e.g. builtin:zipf:100000x10000x10000000 (rows x columns x entries)"
    )]
    Unknown {
        /// The name.
        name: String,
    },
    /// More entries than the cells can reasonably hold.
    #[error(
        "{entries} entries and {test} for testing do not fit into {rows} x {columns} cells, of which at most half may be known, and {ENTRIES_MAX} at most"
    )]
    TooDense {
        /// Training entries.
        entries: u64,
        /// Test entries.
        test: u64,
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
}

/// The uses of the seed.
const CELLS: u64 = 1;
const ROW: u64 = 2;
const COLUMN: u64 = 3;
const ROW_ORDER: u64 = 4;
const COLUMN_ORDER: u64 = 5;
const SPLIT: u64 = 6;
const NOISE: u64 = 7;

impl Generator {
    /// Standard deviation of the noise: the root mean squared error of a perfect prediction.
    pub const NOISE: f64 = 0.5;

    /// Rank of the matrix without noise.
    pub const RANK: usize = 4;

    /// Test entries at most.
    pub const TEST_MAX: u64 = 100_000;

    /// The generator of `builtin:NAME`. The data does not depend on the seed of a run.
    ///
    /// # Errors
    /// If there is no data set of this name.
    pub fn named(name: &str) -> Result<Self, GeneratorError> {
        let unknown = || GeneratorError::Unknown { name: name.to_owned() };
        let (kind, size) = name.split_once(':').map_or((name, None), |(kind, size)| (kind, Some(size)));
        let exponent = match kind {
            "zipf" => 1.1,
            "uniform" => 0.0,
            _ => return Err(unknown()),
        };
        // A model trains to the lower bound of the error in a few seconds.
        let (mut rows, mut columns, mut entries) = (4_000, 400, 250_000);
        if let Some(size) = size {
            let sizes: Vec<&str> = size.split('x').collect();
            let [r, c, n] = sizes[..] else { return Err(unknown()) };
            let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
            let count = |text: &str| {
                let count = u32::try_from(number(text)?).map_err(|_| unknown())?;
                if (1..u32::MAX).contains(&count) { Ok(count) } else { Err(unknown()) }
            };
            (rows, columns, entries) = (count(r)?, count(c)?, number(n)?);
        }
        let generator = Self { rows, columns, entries, exponent, seed: 1 };
        generator.check()?;
        Ok(generator)
    }

    /// Test entries.
    pub fn test_entries(&self) -> u64 {
        (self.entries / 10).clamp(1, Self::TEST_MAX)
    }

    fn cells(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    fn check(&self) -> Result<(), GeneratorError> {
        let (entries, test, rows, columns) = (self.entries, self.test_entries(), self.rows, self.columns);
        let fits = entries.checked_add(test).is_some_and(|all| all <= self.cells() / 2);
        if entries == 0 || !fits || entries > ENTRIES_MAX as u64 {
            return Err(GeneratorError::TooDense { entries, test, rows, columns });
        }
        Ok(())
    }

    /// Makes the data.
    ///
    /// # Errors
    /// [`GeneratorError::TooDense`].
    pub fn generate(&self) -> Result<Dataset, GeneratorError> {
        self.check()?;
        let test = self.test_entries();
        let wanted = self.entries + test;
        // A few more cells than wanted, so that chance hardly ever yields too few. The surplus is dropped.
        let slack = 0.01 * wanted as f64 + 6.0 * (wanted as f64).sqrt();
        let mut density = Density::new(self, (wanted as f64 + slack).min(0.9 * self.cells() as f64));
        let mut entries = Vec::new();
        loop {
            entries.clear();
            for column in 0..self.columns {
                self.column(&density, column, &mut entries);
            }
            if entries.len() as u64 >= wanted {
                break;
            }
            density.draws *= 1.1 * wanted as f64 / entries.len().max(1) as f64;
        }
        let order = Permutation::new(entries.len() as u64, stream(self.seed, &[SPLIT]));
        let mut tested = Vec::with_capacity(test as usize);
        let mut index = 0;
        entries.retain(|entry| {
            let place = order.apply(index);
            index += 1;
            if place < test {
                tested.push(*entry);
            }
            (test..wanted).contains(&place)
        });
        entries.shrink_to_fit();
        let ids = |count| Ids::Numbers { first: 0, count };
        Ok(Dataset::new(ids(self.rows), ids(self.columns), entries, tested))
    }

    /// Appends the known cells of the column with the `rank`-th largest weight.
    fn column(&self, density: &Density, rank: u32, entries: &mut Vec<Entry>) {
        let rows = Permutation::new(self.rows.into(), stream(self.seed, &[ROW_ORDER]));
        let columns = Permutation::new(self.columns.into(), stream(self.seed, &[COLUMN_ORDER]));
        let column = columns.apply(rank.into()) as u32;
        let column_factors = self.factors(COLUMN, column);
        let mut random = Pcg64Mcg::seed_from_u64(stream(self.seed, &[CELLS, rank.into()]));
        let draws = density.draws * density.columns.weight(rank);
        let likely = |row: u32| -(-draws * density.rows.weight(row)).exp_m1();
        // Probabilities fall from row to row. Each jump assumes that all further rows are as likely as the
        // last one. A row that the jump reaches is then kept with the ratio of its probability to the assumed
        // one (thinning).
        let (mut row, mut bound) = (0u32, likely(0));
        while row < self.rows {
            if bound < 1.0 {
                let jump = (1.0 - random.random::<f64>()).ln() / (-bound).ln_1p();
                // With a probability of 0, the jump ends beyond the last row.
                row = row.saturating_add(if jump < f64::from(u32::MAX) { jump as u32 } else { u32::MAX });
                if row >= self.rows {
                    break;
                }
            }
            let probability = likely(row);
            if random.random::<f64>() * bound < probability {
                let number = rows.apply(row.into()) as u32;
                let product: f64 =
                    self.factors(ROW, number).iter().zip(&column_factors).map(|(a, b)| a * b).sum();
                let noise: f64 =
                    Self::normals(stream(self.seed, &[NOISE, number.into(), column.into()])).next();
                let value = product / (Self::RANK as f64).sqrt() + Self::NOISE * noise;
                entries.push(Entry { row: number, column, value });
            }
            bound = probability;
            row += 1;
        }
    }

    /// The true factors of a row or column.
    fn factors(&self, side: u64, number: u32) -> [f64; Self::RANK] {
        let mut normals = Self::normals(stream(self.seed, &[side, number.into()]));
        std::array::from_fn(|_| normals.next())
    }

    fn normals(seed: u64) -> Normals {
        Normals(Pcg64Mcg::seed_from_u64(seed))
    }
}

/// Standard normal numbers.
struct Normals(Pcg64Mcg);

impl Normals {
    fn next(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// Weights of ranks that fall by Zipf's law and sum to 1.
#[derive(Clone, Debug)]
struct Zipf {
    exponent: f64,
    scale: f64,
    /// Groups of neighbouring ranks of about the same weight: the number of ranks, and their weight.
    groups: Vec<(f64, f64)>,
}

/// The number of ranks that are groups of their own, and the ratio of the last to the first rank in later
/// groups.
const SINGLE: u32 = 64;
const GROUP_RATIO: f64 = 1.06;

impl Zipf {
    fn new(count: u32, exponent: f64) -> Self {
        let mut zipf = Self { exponent, scale: 1.0, groups: Vec::new() };
        let mut start = 0;
        while start < count {
            let grown = if start < SINGLE { start + 1 } else { (f64::from(start) * GROUP_RATIO) as u32 + 1 };
            let end = grown.min(count);
            // The rank at the geometric mean represents the group.
            let middle = ((f64::from(start) + 1.0) * f64::from(end)).sqrt();
            zipf.groups.push((f64::from(end - start), middle.powf(-exponent)));
            start = end;
        }
        zipf.scale = 1.0 / zipf.groups.iter().map(|(count, weight)| count * weight).sum::<f64>();
        zipf.groups.iter_mut().for_each(|group| group.1 *= zipf.scale);
        zipf
    }

    /// The weight of a rank, from 0.
    fn weight(&self, rank: u32) -> f64 {
        self.scale * (f64::from(rank) + 1.0).powf(-self.exponent)
    }
}

/// The probabilities of cells.
#[derive(Clone, Debug)]
struct Density {
    rows: Zipf,
    columns: Zipf,
    /// Cells to draw, repeated ones included.
    draws: f64,
}

impl Density {
    /// The density at which `cells` distinct cells are expected.
    fn new(generator: &Generator, cells: f64) -> Self {
        let rows = Zipf::new(generator.rows, generator.exponent);
        let columns = Zipf::new(generator.columns, generator.exponent);
        let mut density = Self { rows, columns, draws: cells };
        let expected = |density: &Self| -> f64 {
            density.columns.groups.iter().map(|(n, weight)| n * density.expected(*weight)).sum()
        };
        while expected(&density) < cells {
            density.draws *= 2.0;
        }
        let (mut low, mut high) = (density.draws / 2.0, density.draws);
        // Each step halves the error. This many steps make it small compared with the error of the groups.
        for _ in 0..30 {
            density.draws = (low + high) / 2.0;
            if expected(&density) < cells {
                low = density.draws;
            } else {
                high = density.draws;
            }
        }
        density
    }

    /// Expected cells of a column with this weight.
    fn expected(&self, weight: f64) -> f64 {
        let rows = self.rows.groups.iter();
        rows.map(|(count, row)| -count * (-self.draws * weight * row).exp_m1()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generator(name: &str) -> Generator {
        Generator::named(name).unwrap()
    }

    #[test]
    fn cells_are_distinct_and_as_many_as_asked_for() {
        for name in
            ["zipf:300x200x20000", "uniform:300x200x20000", "zipf:7x3x5", "uniform:1x4x1", "zipf:2x2x1"]
        {
            let generator = generator(name);
            let data = generator.generate().unwrap();
            assert_eq!(data.train().len() as u64, generator.entries, "{name}");
            assert_eq!(data.test().len() as u64, generator.test_entries(), "{name}");
            let mut cells: Vec<_> =
                data.train().iter().chain(data.test()).map(|e| (e.row, e.column)).collect();
            cells.sort_unstable();
            cells.dedup();
            assert_eq!(cells.len(), data.train().len() + data.test().len(), "{name}");
            assert_eq!(data.digest(), generator.generate().unwrap().digest(), "{name}");
            let other = Generator { seed: 2, ..generator }.generate().unwrap();
            assert!(generator.cells() < 10 || data.digest() != other.digest(), "{name}");
        }
    }

    /// [thesis Tab. 4.4]: the shares of accesses (half of which are to columns) to the most frequent columns;
    /// section 5.4.6: accesses to two columns on each of 8 nodes.
    #[test]
    fn skew_is_that_of_the_papers_data() {
        let paper = Generator {
            rows: 10_000_000,
            columns: 1_000_000,
            entries: 1_000_000_000,
            exponent: 1.1,
            seed: 1,
        };
        let density = Density::new(&paper, paper.entries as f64);
        let (mut ends, mut counts) = (vec![0.0], vec![0.0]);
        for (count, weight) in &density.columns.groups {
            ends.push(ends[ends.len() - 1] + count);
            counts.push(counts[counts.len() - 1] + count * density.expected(*weight));
        }
        assert!((counts[counts.len() - 1] / paper.entries as f64 - 1.0).abs() < 1e-3);
        let share = |columns: f64| {
            let at = ends.partition_point(|end| *end < columns);
            let part = (columns - ends[at - 1]) / (ends[at] - ends[at - 1]);
            let cells = counts[at - 1] + part * (counts[at] - counts[at - 1]);
            50.0 * cells / paper.entries as f64
        };
        let table =
            [(1.0 / 64.0, 3.0), (1.0 / 16.0, 5.0), (0.25, 9.0), (1.0, 14.0), (4.0, 19.0), (16.0, 24.0)];
        for (factor, percent) in table.into_iter().chain([(64.0, 30.0), (256.0, 37.0)]) {
            let here = share(755.0 * factor);
            assert!((here - percent).abs() < 4.0, "{factor}: {here:.1} %, {percent} % in the table");
        }
        // 755 columns are more than 100 times as frequent as the mean of columns.
        let groups = density.columns.groups.iter();
        let hot = groups.filter(|(_, weight)| density.expected(*weight) > 100.0 * 1000.0);
        let hot: f64 = hot.map(|(count, _)| count).sum();
        assert!((700.0..820.0).contains(&hot), "{hot} columns");
        let per_node = |rank| density.expected(density.columns.weight(rank)) / 8.0;
        assert!((1.0e6..1.3e6).contains(&per_node(0)), "most frequent: {}", per_node(0));
        assert!((25.0..37.0).contains(&per_node(450_000)), "at the 55 % quantile: {}", per_node(450_000));
    }

    #[test]
    fn generated_cells_follow_the_expectation() {
        let generator = generator("zipf:2000x300x60000");
        let data = generator.generate().unwrap();
        let density = Density::new(&generator, 66_000.0);
        let mut counts = vec![0.0; 300];
        data.train().iter().chain(data.test()).for_each(|e| counts[e.column as usize] += 1.0);
        counts.sort_by(|a: &f64, b| b.total_cmp(a));
        let sum = |counts: &[f64]| counts.iter().sum::<f64>();
        let expected: Vec<f64> = (0..300).map(|c| density.expected(density.columns.weight(c))).collect();
        for range in [0..1, 0..10, 10..100, 100..300] {
            let (here, there) = (sum(&counts[range.clone()]), sum(&expected[range.clone()]));
            assert!((here / there - 1.0).abs() < 0.05, "columns {range:?}: {here}, expected {there}");
        }
        let mut rows = data.row_uses().to_vec();
        rows.sort_unstable();
        assert!(rows[1999] > 5 * rows[1000], "rows are skewed as well");
        let uniform = self::generator("uniform:2000x300x60000").generate().unwrap();
        assert!(uniform.column_uses().iter().all(|n| (120..280).contains(n)), "about 200 each");
    }

    #[test]
    fn each_cell_is_as_likely_as_it_should_be() {
        const TIMES: u64 = 20_000;
        let generator = Generator { rows: 30, columns: 4, entries: 40, exponent: 1.1, seed: 0 };
        let density = Density::new(&generator, 40.0);
        let (mut times, mut entries) = ([0u32; 30], Vec::new());
        for seed in 0..TIMES {
            entries.clear();
            Generator { seed, ..generator }.column(&density, 1, &mut entries);
            let order = Permutation::new(30, stream(seed, &[ROW_ORDER]));
            for (rank, times) in times.iter_mut().enumerate() {
                let row = order.apply(rank as u64) as u32;
                *times += entries.iter().filter(|e| e.row == row).count() as u32;
            }
        }
        for (rank, times) in times.iter().enumerate() {
            let draws = density.draws * density.columns.weight(1) * density.rows.weight(rank as u32);
            let expected = -(-draws).exp_m1();
            let deviation = (expected * (1.0 - expected) / TIMES as f64).sqrt();
            let share = f64::from(*times) / TIMES as f64;
            assert!((share - expected).abs() < 5.0 * deviation, "row {rank}: {share}, not {expected}");
        }
    }

    #[test]
    fn values_have_the_variance_promised() {
        let data = generator("uniform:3000x2000x100000").generate().unwrap();
        let mean_square =
            data.train().iter().map(|e| e.value * e.value).sum::<f64>() / data.train().len() as f64;
        let expected = 1.0 + Generator::NOISE * Generator::NOISE;
        assert!((mean_square / expected - 1.0).abs() < 0.1, "{mean_square}, not {expected}");
    }

    #[test]
    fn names_say_the_size() {
        let expected = Generator { rows: 10, columns: 20, entries: 30, exponent: 0.0, seed: 1 };
        assert_eq!(Generator::named("uniform:10x20x30"), Ok(expected));
        assert_eq!(Generator::named("zipf:10x20x30"), Ok(Generator { exponent: 1.1, ..expected }));
        for name in
            ["", "zip", "zipf:", "zipf:1x2", "zipf:10x20x30x40", "zipf:0x20x3", "zipf:-1x20x3", "zipf:axbxc"]
        {
            let error = Generator::named(name).unwrap_err().to_string();
            assert!(error.contains(&format!("builtin:{name};")), "{error}");
        }
        for name in ["zipf:10x20x0", "zipf:10x20x100", "zipf:10x20x18446744073709551615"] {
            let error = Generator::named(name).unwrap_err().to_string();
            assert!(error.contains("do not fit into 10 x 20 cells"), "{error}");
        }
    }
}
