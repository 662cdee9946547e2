//! The kernel's figures of a TCP connection: tcp(7), `TCP_INFO`.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
};

use nix::errno::Errno;

/// Reads as much of `struct tcp_info` as `info` holds and the kernel has. Returns its length.
pub(crate) fn tcp_info(fd: BorrowedFd<'_>, info: &mut [u8]) -> io::Result<usize> {
    let mut len = libc::socklen_t::try_from(info.len()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the kernel writes at most `len` bytes into `info`, which is that long, and `len` itself.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    Errno::result(result)?;
    Ok(len as usize)
}
