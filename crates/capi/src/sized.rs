//! Structures of callers that were compiled with another version of the header.
//!
//! A structure begins with the size that the caller gives it. Of a shorter one the missing fields are 0; of a longer one the fields
//! that this version does not know must be 0.

use std::{mem, ptr};

use crate::{
    status::Failure,
    types::{
        GiustoConfig, GiustoFeedback, GiustoPacket, GiustoProbe, GiustoReport, GiustoRequirements,
        GiustoTarget, GiustoTotals,
    },
};

/// Larger sizes are errors of the caller, such as a field that was not set.
const LARGEST: usize = 1024;

/// A structure of C.
///
/// # Safety
///
/// It is `repr(C)`, every pattern of bits is a valid value of it, 0 in all fields included, and its first field is `size: usize` unless it
/// is read with [`read_as`] alone.
#[allow(unsafe_code, reason = "its promise is what reading and writing rely on")]
pub(crate) unsafe trait Plain: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// Its size in the first version of the header.
    const FIRST_SIZE: usize;
}

macro_rules! plain {
    ($($type:ident $name:literal $size:literal),* $(,)?) => {$(
        // Whoever adds a field comes here: the first size then ends where the field begins (`offset_of!`).
        #[cfg(target_pointer_width = "64")]
        const _: () = assert!(size_of::<$type>() == $size);
        // SAFETY: `types` declares it `repr(C)`, of integers, floats and pointers alone, `size` first.
        #[allow(unsafe_code, reason = "a promise about the type")]
        unsafe impl Plain for $type {
            const NAME: &'static str = $name;
            const FIRST_SIZE: usize = size_of::<$type>();
        }
    )*};
}

plain!(
    GiustoConfig "GiustoConfig" 64,
    GiustoPacket "GiustoPacket" 32,
    GiustoReport "GiustoReport" 24,
    GiustoFeedback "GiustoFeedback" 64,
    GiustoTarget "GiustoTarget" 48,
    GiustoProbe "GiustoProbe" 40,
    GiustoRequirements "GiustoRequirements" 48,
    GiustoTotals "GiustoTotals" 40,
);

fn check<T: Plain>(pointer: *const T, size: usize) -> Result<(), Failure> {
    if pointer.is_null() || !pointer.is_aligned() {
        let found = if pointer.is_null() { "NULL" } else { "an address that is not aligned" };
        return Err(Failure::argument(format!("expected a {}, found {found}", T::NAME)));
    }
    if (T::FIRST_SIZE..=LARGEST).contains(&size) {
        return Ok(());
    }
    let name = T::NAME;
    Err(Failure::argument(format!("the size of {name} must be sizeof({name}), found {size}")))
}

/// The size that the structure has in its first field.
///
/// # Safety
///
/// `pointer` is NULL, not aligned, or points to at least a `size_t`.
#[allow(unsafe_code, reason = "reads memory of the caller")]
unsafe fn given_size<T: Plain>(pointer: *const T) -> usize {
    if pointer.is_null() || !pointer.is_aligned() {
        return 0;
    }
    // SAFETY: it is not NULL, it is aligned for `T`, whose first field is a `usize`, and the caller promises that this field is there.
    unsafe { pointer.cast::<usize>().read() }
}

/// Reads a structure that begins with its size.
///
/// # Safety
///
/// `pointer` is NULL, not aligned, or points to a structure of the size that it has in its first field.
#[allow(unsafe_code, reason = "reads memory of the caller")]
pub(crate) unsafe fn read<T: Plain>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: the same promise.
    unsafe { read_as(pointer, given_size(pointer)) }
}

/// Reads a structure of `size` bytes.
///
/// # Safety
///
/// `pointer` is NULL, not aligned, or points to `size` bytes that can be read.
#[allow(unsafe_code, reason = "reads memory of the caller")]
pub(crate) unsafe fn read_as<T: Plain>(pointer: *const T, size: usize) -> Result<T, Failure> {
    check(pointer, size)?;
    let known = size.min(size_of::<T>());
    // SAFETY: `T: Plain` is valid where all its bytes are 0.
    let mut value: T = unsafe { mem::zeroed() };
    // SAFETY: `known` bytes can be read at `pointer` and written to `value`, which is our own; every pattern of bits is a valid `T`.
    unsafe { ptr::copy_nonoverlapping(pointer.cast::<u8>(), ptr::from_mut(&mut value).cast(), known) };
    for place in known..size {
        // SAFETY: the caller promises that `size` bytes can be read.
        if unsafe { pointer.cast::<u8>().add(place).read() } != 0 {
            let text =
                format!("{} has a field that this version of libgiusto does not know: leave it 0", T::NAME);
            return Err(Failure::argument(text));
        }
    }
    Ok(value)
}

/// Whether [`write`] can write there.
///
/// # Safety
///
/// As of [`write`].
#[allow(unsafe_code, reason = "reads memory of the caller")]
pub(crate) unsafe fn check_written<T: Plain>(pointer: *mut T) -> Result<(), Failure> {
    // SAFETY: the same promise.
    check(pointer.cast_const(), unsafe { given_size(pointer.cast_const()) })
}

/// Writes `value` to a structure that begins with its size, which stays. Fields that this version does not know become 0.
///
/// # Safety
///
/// `pointer` is NULL, not aligned, or points to a structure that can be written, of the size that it has in its first field.
#[allow(unsafe_code, reason = "writes memory of the caller")]
pub(crate) unsafe fn write<T: Plain>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: the same promise.
    let size = unsafe { given_size(pointer.cast_const()) };
    check(pointer.cast_const(), size)?;
    let known = size.min(size_of::<T>());
    let to = pointer.cast::<u8>();
    let head = size_of::<usize>();
    // SAFETY: both have `known` bytes, at least as many as the first field, and do not overlap: `value` is our own.
    unsafe {
        ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>().add(head), to.add(head), known - head);
    }
    // SAFETY: the caller promises that `size` bytes can be written.
    unsafe { ptr::write_bytes(to.add(known), 0, size - known) };
    Ok(())
}
