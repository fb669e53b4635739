//! What a resource is: schema, metaparams, traits
