module trackside.example/login

go 1.21

require github.com/lib/pq v1.12.3
