//! Memory for chunks, straight from the system where that has pages to give: what is freed is the system's again at once,
//! and does not stay in the arenas of the program's allocator.

use std::ptr::NonNull;

/// Whether single chunks of a block can be given back to the system.
pub(super) const CAN_PURGE: bool = cfg!(all(unix, not(zprof_loom), not(miri)));

#[cfg(all(unix, not(zprof_loom), not(miri)))]
mod system {
    use super::{NonNull, ptr_at};

    /// Address space that chunks leave to the program, the most of it and the least. Where its size is limited, as by
    /// `ulimit -v`, a recorder that took all of it would make the program's next small allocation fail.
    const MOST_HEADROOM: usize = 8 << 20;
    const LEAST_HEADROOM: usize = 4 << 20;

    /// Bytes of a page.
    fn page() -> usize {
        // SAFETY: sysconf touches no memory.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1)
    }

    /// Maps `bytes` of zeros, which begin with a page. `None` where the system has no more, or would have next to nothing left
    /// afterwards.
    pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
        // In whole pages, since the system gives back no parts of one: the first page of what is kept would go as well.
        let headroom = bytes.saturating_mul(4).clamp(LEAST_HEADROOM, MOST_HEADROOM).next_multiple_of(page());
        let whole = map_exactly(bytes.checked_add(headroom)?)?;
        // SAFETY: the range is the lower part of the mapping that was just made, and nothing points into it. Systems place
        // a mapping below the one before, so that the upper parts are neighbours and count as one.
        unsafe { unmap(whole, headroom) };
        // SAFETY: the mapping has this many bytes and more.
        let kept = unsafe { ptr_at(whole, headroom) };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the range is mapped and private. The advice changes nothing in this process; where an old kernel does not
        // know it, a fork copies the mapping as any other.
        unsafe {
            libc::madvise(kept.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK)
        };
        Some(kept)
    }

    /// Maps `bytes` of zeros that the child of a fork gets as well, whatever is left then.
    pub(crate) fn map_exactly(bytes: usize) -> Option<NonNull<u8>> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANON);
        // SAFETY: a new private mapping at an address of the system's choice touches no memory of this process.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED { None } else { NonNull::new(at.cast()) }
    }

    /// Gives a mapping back, or whole pages of one.
    ///
    /// # Safety
    ///
    /// The range must be mapped by [`map`] or [`map_exactly`], and nobody may use it any more.
    pub(crate) unsafe fn unmap(at: NonNull<u8>, bytes: usize) {
        // SAFETY: as the caller says. That the system refuses is impossible for a range that is mapped.
        unsafe { libc::munmap(at.as_ptr().cast(), bytes) };
    }

    /// Gives the pages that lie wholly in a range back, and keeps the addresses: the pages read as zeros from then on.
    ///
    /// # Safety
    ///
    /// The range must be mapped by [`map`] or [`map_exactly`], and nobody may need what it holds. Another thread may write
    /// there at the same time.
    pub(crate) unsafe fn purge(at: NonNull<u8>, bytes: usize) {
        let page = page();
        let skipped = at.addr().get().next_multiple_of(page) - at.addr().get();
        let bytes = bytes.saturating_sub(skipped) / page * page;
        if bytes == 0 {
            return;
        }
        // SAFETY: the range has more bytes than are skipped.
        let at = unsafe { ptr_at(at, skipped) };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        // SAFETY: the pages are mapped and private, and nobody needs what they hold, says the caller.
        unsafe {
            libc::madvise(at.as_ptr().cast(), bytes, libc::MADV_DONTNEED)
        };
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            // Elsewhere advice may be put off for as long as memory lasts; a new mapping in the same place may not.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_FIXED;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the pages are mapped, and nobody needs what they hold, says the caller.
            unsafe { libc::mmap(at.as_ptr().cast(), bytes, protection, flags, -1, 0) };
        }
    }
}

#[cfg(not(all(unix, not(zprof_loom), not(miri))))]
mod system {
    use std::alloc::{Layout, alloc, dealloc};

    use super::NonNull;

    /// Alignment of a chunk.
    const ALIGN: usize = 64;

    /// Allocates `bytes`, whatever they hold.
    pub(crate) fn map(bytes: usize) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok().filter(|layout| layout.size() != 0)?;
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc(layout) })
    }

    /// Gives it back.
    ///
    /// # Safety
    ///
    /// The memory must come from [`map`] with the same size, and nobody may use it any more.
    pub(crate) unsafe fn unmap(at: NonNull<u8>, bytes: usize) {
        if let Ok(layout) = Layout::from_size_align(bytes, ALIGN) {
            // SAFETY: `map` allocated it with this layout, says the caller.
            unsafe { dealloc(at.as_ptr(), layout) };
        }
    }

    /// The allocator takes whole blocks alone.
    ///
    /// # Safety
    ///
    /// None is needed here.
    pub(crate) unsafe fn purge(_at: NonNull<u8>, _bytes: usize) {}
}

#[cfg(all(unix, not(zprof_loom), miri))]
pub(super) use system::map as map_exactly;
#[cfg(all(unix, not(zprof_loom), not(miri)))]
pub(super) use system::map_exactly;
pub(super) use system::{map, purge, unmap};

/// The address `bytes` further on.
///
/// # Safety
///
/// Both must lie in one mapping, or the second at its end.
pub(super) unsafe fn ptr_at(at: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    // SAFETY: as the caller says.
    unsafe { at.add(bytes) }
}

#[cfg(all(test, unix, not(miri), not(zprof_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_of_any_size_is_there_from_its_first_byte_to_its_last() {
        // Around the sizes between which the headroom grows with the mapping, and is no whole pages.
        for bytes in [1, 4096, (1 << 20) + 64, (1 << 20) + 1000, (3 << 19) + 8, (2 << 20) - 8, 4 << 20] {
            let at = map(bytes).expect("memory");
            assert_eq!(at.addr().get() % 4096, 0, "{bytes}");
            // SAFETY: the mapping is this long, and this test's alone.
            let slice = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), bytes) };
            slice.fill(1);
            assert!(slice.iter().all(|byte| *byte == 1), "{bytes}");
            // SAFETY: the slice is used no more.
            unsafe { unmap(at, bytes) };
        }
    }

    #[test]
    fn a_purged_page_reads_as_zeros_and_its_neighbours_stay() {
        const PAGES: usize = 16 * 65_536;
        let at = map(PAGES).expect("memory");
        // SAFETY: the mapping is this long, and this test's alone.
        let bytes = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), PAGES) };
        bytes.fill(1);
        // SAFETY: the mapping is longer than that.
        let inside = unsafe { ptr_at(at, 100) };
        // SAFETY: the range is part of the mapping, and the slice is used no more.
        unsafe { purge(inside, 4 * 65_536) };
        // SAFETY: the mapping is this long, and this test's alone.
        let bytes = unsafe { std::slice::from_raw_parts(at.as_ptr(), PAGES) };
        assert!(bytes[..100].iter().all(|byte| *byte == 1), "the page of the first byte stays");
        assert!(bytes[65_536..3 * 65_536].iter().all(|byte| *byte == 0));
        assert!(bytes[100 + 4 * 65_536..].iter().all(|byte| *byte == 1));
        // SAFETY: the slices are used no more.
        unsafe { unmap(at, PAGES) };
    }
}
