"""Write the tables, figures and pages that are generated from rows."""
