//! Matrix products over slices: the only module that calls the matrix library, whose interface takes
//! pointers.

use gemm::Parallelism;
use intendant_core::Element;

/// A matrix in a slice, row by row. Rows may lie apart, because optimiser state follows the embedding in a
/// value.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, E> {
    data: &'a [E],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// A matrix that can be written; see [`Rows`].
#[derive(Debug)]
pub struct RowsMut<'a, E> {
    data: &'a mut [E],
    rows: usize,
    columns: usize,
    stride: usize,
}

/// Panics unless `rows` rows of `columns` elements, `stride` apart, lie within `len` elements without
/// overlap.
fn check(len: usize, rows: usize, columns: usize, stride: usize) {
    assert!(columns <= stride, "rows of {columns} elements overlap at a distance of {stride}");
    // The products and sums must not wrap: everything below relies on this check.
    let end =
        rows.checked_sub(1).map_or(Some(0), |r| r.checked_mul(stride).and_then(|s| s.checked_add(columns)));
    assert!(
        end.is_some_and(|end| end <= len) && isize::try_from(stride).is_ok(),
        "{rows} rows of {columns} elements at a distance of {stride} do not fit into {len} elements"
    );
}

impl<'a, E> Rows<'a, E> {
    /// The matrix of `rows` rows of `columns` elements whose starts are `stride` elements apart.
    ///
    /// # Panics
    /// If it does not fit into the slice or rows overlap.
    pub fn new(data: &'a [E], rows: usize, columns: usize, stride: usize) -> Self {
        check(data.len(), rows, columns, stride);
        Self { data, rows, columns, stride }
    }
}

impl<'a, E> RowsMut<'a, E> {
    /// The matrix of `rows` rows of `columns` elements whose starts are `stride` elements apart.
    ///
    /// # Panics
    /// If it does not fit into the slice or rows overlap.
    pub fn new(data: &'a mut [E], rows: usize, columns: usize, stride: usize) -> Self {
        check(data.len(), rows, columns, stride);
        Self { data, rows, columns, stride }
    }
}

/// Whether a product replaces the content of the output or is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Into {
    /// Replaces it.
    Set,
    /// Is added to it.
    Add,
}

/// `out = a · bᵀ`: the inner products of all rows of `a` with all rows of `b`.
///
/// # Panics
/// If the shapes do not match.
pub fn multiply_transposed<E: Element>(out: RowsMut<'_, E>, a: Rows<'_, E>, b: Rows<'_, E>) {
    assert_eq!((out.rows, out.columns, a.columns), (a.rows, b.rows, b.columns), "shapes of out = a · bᵀ");
    // `b` is read column by column.
    product(Into::Set, out, a.columns, (a.data, 1, a.stride), (b.data, b.stride, 1));
}

/// `out = a · b`, or added to it.
///
/// # Panics
/// If the shapes do not match.
pub fn multiply<E: Element>(into: Into, out: RowsMut<'_, E>, a: Rows<'_, E>, b: Rows<'_, E>) {
    assert_eq!((out.rows, out.columns, a.columns), (a.rows, b.columns, b.rows), "shapes of out = a · b");
    product(into, out, a.columns, (a.data, 1, a.stride), (b.data, 1, b.stride));
}

/// `out = aᵀ · b`.
///
/// # Panics
/// If the shapes do not match.
pub fn transposed_multiply<E: Element>(out: RowsMut<'_, E>, a: Rows<'_, E>, b: Rows<'_, E>) {
    assert_eq!((out.rows, out.columns, a.rows), (a.columns, b.columns, b.rows), "shapes of out = aᵀ · b");
    // `a` is read column by column.
    product(Into::Set, out, a.rows, (a.data, a.stride, 1), (b.data, 1, b.stride));
}

/// `out = left · right` over `depth`; both factors are given as (elements, distance of columns, distance of
/// rows). The callers have compared the shapes, and [`check`] has compared shapes and slices.
#[expect(unsafe_code, reason = "the interface of the matrix library")]
fn product<E: Element>(
    into: Into,
    out: RowsMut<'_, E>,
    depth: usize,
    left: (&[E], usize, usize),
    right: (&[E], usize, usize),
) {
    // SAFETY: `left`, `right` and `out` are borrowed for the call, `out` exclusively. `check` has made sure
    // that every element (row · stride + column) of each of the three matrices lies inside its slice. The
    // callers swap the two distances together with the two extents, so that a transposed view addresses the
    // same elements. `E` is `f32` or `f64` (the trait is sealed), which the library supports.
    unsafe {
        gemm::gemm(
            out.rows,
            out.columns,
            depth,
            out.data.as_mut_ptr(),
            1,
            out.stride as isize,
            into == Into::Add,
            left.0.as_ptr(),
            left.1 as isize,
            left.2 as isize,
            right.0.as_ptr(),
            right.1 as isize,
            right.2 as isize,
            E::ONE,
            E::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u64) -> Vec<f64> {
        (0..n as u64).map(|i| (intendant_core::random::stream(seed, &[i]) % 17) as f64 - 8.0).collect()
    }

    /// Small integers multiply exactly, so that any order of summation gives the same result.
    #[test]
    fn products_equal_the_definition_for_all_shapes_and_strides() {
        for (n, m, k) in [(1, 1, 1), (1, 7, 3), (5, 1, 8), (3, 4, 0), (4, 6, 5), (17, 33, 20), (64, 70, 129)]
        {
            let (a, b) = (numbers(n * (k + 3), 1), numbers(m * (k + 2), 2));
            let (at, bt) = (numbers(k * (n + 1), 3), numbers(k * (m + 4), 4));
            let stride = m + 2;
            let mut out = vec![f64::NAN; n * stride];
            let expect = |out: &[f64], term: &dyn Fn(usize, usize, usize) -> f64| {
                for i in 0..n {
                    for j in 0..stride {
                        if j < m {
                            assert_eq!(out[i * stride + j], (0..k).map(|x| term(i, j, x)).sum::<f64>());
                        } else {
                            assert!(out[i * stride + j].is_nan(), "wrote between rows");
                        }
                    }
                }
            };
            let (a_rows, b_rows) = (Rows::new(&a, n, k, k + 3), Rows::new(&b, m, k, k + 2));
            multiply_transposed(RowsMut::new(&mut out, n, m, stride), a_rows, b_rows);
            expect(&out, &|i, j, x| a[i * (k + 3) + x] * b[j * (k + 2) + x]);
            let (at_rows, bt_rows) = (Rows::new(&at, k, n, n + 1), Rows::new(&bt, k, m, m + 4));
            multiply(Into::Set, RowsMut::new(&mut out, n, m, stride), a_rows, bt_rows);
            expect(&out, &|i, j, x| a[i * (k + 3) + x] * bt[x * (m + 4) + j]);
            multiply(Into::Add, RowsMut::new(&mut out, n, m, stride), a_rows, bt_rows);
            expect(&out, &|i, j, x| 2.0 * a[i * (k + 3) + x] * bt[x * (m + 4) + j]);
            transposed_multiply(RowsMut::new(&mut out, n, m, stride), at_rows, bt_rows);
            expect(&out, &|i, j, x| at[x * (n + 1) + i] * bt[x * (m + 4) + j]);
        }
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn a_matrix_beyond_its_slice_is_refused() {
        Rows::new(&[0.0f32; 9], 2, 5, 5);
    }

    #[test]
    #[should_panic(expected = "shapes of out")]
    fn shapes_that_do_not_match_are_refused() {
        let (a, b, mut out) = ([0.0f32; 6], [0.0f32; 6], [0.0f32; 4]);
        multiply(Into::Set, RowsMut::new(&mut out, 2, 2, 2), Rows::new(&a, 2, 3, 3), Rows::new(&b, 2, 3, 3));
    }
}
