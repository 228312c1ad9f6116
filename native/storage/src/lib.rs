//! (filled by its first slice)
