//! Keys of attributes, as all derives read them.

use quote::quote;
use syn::{Attribute, Error, Result, meta::ParseNestedMeta, parse::Parse};

/// Reads the keys of all attributes of this name.
pub(crate) fn each_key(
    name: &str,
    attributes: &[Attribute],
    mut read: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident(name))
        .try_for_each(|attribute| attribute.parse_nested_meta(|meta| read(&meta)))
}

/// The key as it is written.
pub(crate) fn key(meta: &ParseNestedMeta<'_>) -> String {
    let path = &meta.path;
    quote!(#path).to_string().replace(' ', "")
}

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
        Some(_) => Err(meta.error(format!("`{}` is given twice; keep one of them", key(meta)))),
    }
}
