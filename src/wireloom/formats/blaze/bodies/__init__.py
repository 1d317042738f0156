"""Blaze bodies → rows of `fields` and a column of JSON; what `BlazeColumns.bodies` gives."""
