//! Shapes with type, lifetime and const parameters.

use std::fmt::{Debug, Display};

struct NotDebug;

#[zprof::trace]
fn with_debug<T: Debug>(value: T) -> String {
    format!("{value:?}")
}

#[zprof::trace]
fn without_debug<T>(value: T) -> [T; 1] {
    [value]
}

#[zprof::trace]
fn where_clause<T, U>(left: T, right: U) -> String
where
    T: Display,
    U: AsRef<str> + Copy,
{
    format!("{left}{}", right.as_ref())
}

#[zprof::trace("generic.array", n = N, first = items[0])]
fn const_array<const N: usize>(items: [u32; N]) -> [u32; N] {
    items.map(|item| item + 1)
}

#[zprof::trace(n)]
fn value_of_a_parameter<T: zprof::Value + Copy>(n: T) -> T {
    n
}

struct Matrix<T, const ROWS: usize, const COLUMNS: usize> {
    cells: [[T; COLUMNS]; ROWS],
}

impl<T: Copy + Into<u64>, const ROWS: usize, const COLUMNS: usize> Matrix<T, ROWS, COLUMNS> {
    #[zprof::trace("matrix.sum", rows = ROWS, columns = COLUMNS)]
    fn sum(&self) -> u64 {
        self.cells.iter().flatten().map(|&cell| cell.into()).sum()
    }

    #[zprof::trace]
    fn mapped<U>(self, map: impl Fn(T) -> U) -> Matrix<U, ROWS, COLUMNS> {
        zprof::scope!("map", rows = ROWS);
        Matrix { cells: self.cells.map(|row| row.map(&map)) }
    }
}

trait Size {
    fn size(self) -> usize;
}

impl<T> Size for &T {
    #[zprof::trace("size", bytes = size_of::<T>())]
    fn size(self) -> usize {
        size_of::<T>()
    }
}

#[test]
fn generics_stay_generic() {
    assert_eq!(with_debug(Some(1)), "Some(1)");
    let [NotDebug] = without_debug(NotDebug);
    assert_eq!(where_clause::<u8, &str>(1, "a"), "1a");
    let shape: fn([u32; 2]) -> [u32; 2] = const_array::<2>;
    assert_eq!(shape([1, 2]), [2, 3]);
    assert_eq!((value_of_a_parameter(1_u8), value_of_a_parameter("a")), (1, "a"));
    let matrix = Matrix { cells: [[1_u8, 2, 3], [4, 5, 6]] };
    assert_eq!(matrix.sum(), 21);
    assert_eq!(matrix.mapped(u16::from).sum(), 21);
    assert_eq!((&0_u32).size(), 4);
}
