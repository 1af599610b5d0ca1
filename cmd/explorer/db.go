package main

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/explorer/store"
)

// dbCommand has the operator's commands for the database file.
func dbCommand() *cli.Command {
	return &cli.Command{
		Name:  "db",
		Usage: "back up the database, or make a restored backup safe to use",
		Subcommands: []*cli.Command{
			{
				Name: "backup", Usage: "write a consistent copy to FILE, also while the explorer runs", ArgsUsage: "FILE",
				Flags: []cli.Flag{requiredDB()},
				Action: func(c *cli.Context) error {
					if c.NArg() != 1 {
						return errors.New("cannot back up: name one FILE that doesn't exist yet")
					}
					return store.Backup(c.Context, c.Path("db"), c.Args().First())
				},
			},
			{
				Name:  "new-epoch",
				Usage: "after restoring a backup: make every node start its poll again, and skip numbers that may have been given out since",
				Flags: []cli.Flag{requiredDB(), &cli.Uint64Flag{Name: "skip", Value: 1000000, Usage: "how many reservation numbers to skip"}},
				Action: func(c *cli.Context) error {
					epoch, err := store.NewEpoch(c.Context, c.Path("db"), c.Uint64("skip"))
					if err != nil {
						return err
					}
					fmt.Fprintln(c.App.Writer, "the database's epoch is now", epoch)
					return nil
				},
			},
		},
	}
}

// requiredDB has no default: these commands must not touch a file that wasn't named.
func requiredDB() cli.Flag {
	return &cli.PathFlag{Name: "db", Required: true, Usage: "the database `FILE`"}
}
