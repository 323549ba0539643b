SELECT owner, generation, digest, tables FROM definitions
