//! Exports: XSpace bytes in, another format out.
/// temp
pub fn export_json_file(_: &std::path::Path, _: &std::path::Path) -> crate::Result<()> {
    Ok(())
}
