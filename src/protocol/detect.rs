//! Finding out which protocol an endpoint speaks.
