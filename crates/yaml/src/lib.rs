//! The YAML graph front-end
