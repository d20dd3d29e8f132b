// Forgets what was asked.
asked.data = {cell: []};
boxed.data = {cell: []};
