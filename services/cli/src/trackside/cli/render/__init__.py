"""What commands show: screens, boards, tables, reports."""
