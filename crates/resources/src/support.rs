//! Code that several kinds share: text files, home directories, accounts, downloads, plan checks.

pub(crate) mod account;
pub(crate) mod applied_often;
pub(crate) mod claimed_below;
pub(crate) mod declared_path;
pub(crate) mod derived_file;
pub(crate) mod fetch;
pub(crate) mod follow;
pub(crate) mod foresee;
pub(crate) mod home;
pub(crate) mod presence;
pub(crate) mod shadow;
pub(crate) mod text_file;
