//! Keys of attributes, as all derives read them.

use syn::{Error, Result, meta::ParseNestedMeta, parse::Parse};

/// Reads what follows `key =`; anything else is an error that shows `example`.
pub(crate) fn value<T: Parse>(meta: &ParseNestedMeta<'_>, example: &str) -> Result<T> {
    meta.value()
        .and_then(|value| value.parse())
        .map_err(|error| Error::new(error.span(), format!("write `{example}`")))
}

/// Fills the slot of a key, once.
pub(crate) fn set<T>(slot: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => {
            let key = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            Err(meta.error(format!("`{key}` is given twice; keep one of them")))
        }
    }
}
