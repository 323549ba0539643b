// Logs in to a Postgres with lib/pq, the driver of Grafana and of many other programs in Go.
package main

import (
	"database/sql"
	"fmt"
	"os"

	_ "github.com/lib/pq"
)

func main() {
	database, err := sql.Open("postgres", os.Args[1])
	if err == nil {
		var user string
		if err = database.QueryRow("SELECT current_user").Scan(&user); err == nil {
			fmt.Println(user)
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
