//! Passes open files to another process over a Unix socket (`SCM_RIGHTS`).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Buffer for one control message with one file descriptor, aligned as the header of the message requires.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// Size in bytes of the payload of the control message: one descriptor.
const DESCRIPTOR_BYTES: u32 = size_of::<libc::c_int>() as u32;

/// Sends bytes, with the descriptor of `file` attached to the first byte. Returns the number of bytes sent.
///
/// # Errors
/// When the socket is broken or not ready.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: &File) -> io::Result<usize> {
    let mut control = Control { bytes: [0; 64] };
    let mut buffer = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: `message` points at a live buffer and at live, zeroed, aligned control space of the length it states; the
    // header and data written lie within it, as 64 bytes exceed CMSG_SPACE of one descriptor. sendmsg only reads.
    let sent = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut buffer;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(DESCRIPTOR_BYTES) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(DESCRIPTOR_BYTES) as _;
        libc::CMSG_DATA(header).cast::<libc::c_int>().write_unaligned(file.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives bytes and the file attached to them, if any. Zero bytes mean that the other side closed the socket.
///
/// # Errors
/// When the socket is broken or not ready.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<File>)> {
    let mut control = Control { bytes: [0; 64] };
    let mut buffer = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: as in `send`; recvmsg writes within the lengths stated. A descriptor is taken over only from a whole
    // SCM_RIGHTS message, where the kernel has just opened it for this process, so it has no other owner.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut buffer;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(DESCRIPTOR_BYTES) as _;
        let received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let whole = !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len as usize >= libc::CMSG_LEN(DESCRIPTOR_BYTES) as usize;
        let file = whole.then(|| {
            let raw = libc::CMSG_DATA(header).cast::<libc::c_int>().read_unaligned();
            File::from(OwnedFd::from_raw_fd(raw))
        });
        Ok((received, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn received_file_is_open() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        assert_eq!(send(here.as_fd(), b"frame", &file).unwrap(), 5);
        drop(file);
        let mut bytes = [0; 16];
        let (count, received) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"frame");
        let mut content = String::new();
        received.unwrap().read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
    }

    #[test]
    fn bytes_without_file_carry_no_descriptor() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"x").unwrap();
        let mut bytes = [0; 16];
        let (count, received) = receive(there.as_fd(), &mut bytes).unwrap();
        assert_eq!((count, received.is_none()), (1, true));
        drop(here);
        assert_eq!(receive(there.as_fd(), &mut bytes).unwrap().0, 0);
    }
}
