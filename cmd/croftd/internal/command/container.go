package command

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/daemon"
	"github.com/croft-edge/croft/pkg/node"
)

// containerCommand runs the container module, and takes containers down.
func containerCommand(v node.Version) *cli.Command {
	return &cli.Command{
		Name: "container", Usage: "run the container module on --bus: users' containers and their images",
		Flags: settingFlags(), Action: serve(v, daemon.Container),
		Subcommands: []*cli.Command{{
			Name: "down", Usage: "end the stopped node's containers, its own containerd and its log carrier; the node makes them again when it starts",
			Flags: settingFlags(),
			Action: storageAction(func(ctx context.Context, _ *cli.Context, cfg config.Config) error {
				return daemon.TakeDownContainers(ctx, cfg)
			}),
		}},
	}
}

// writeContainers prints containers of a kind, and the last words of those that
// don't run.
func writeContainers(row func(cells ...string), kind string, containers []node.ContainerInfo) {
	if len(containers) == 0 {
		return
	}
	row("")
	row(kind, "STATE", "PID", "RESTARTS", "LAST EXIT", "NEXT START", "USER", "IMAGE", "CAUSE", "DRIFT")
	for _, c := range containers {
		row(c.ID, c.State, fmt.Sprint(c.PID), fmt.Sprint(c.Restarts), exit(c), at(c.Next), short(c.User), shortDigest(c.Image),
			printable(cmp.Or(c.Cause, c.OOM, "-")), printable(cmp.Or(c.Drift, "-")))
	}
	for _, c := range containers {
		if len(c.LastLog) == 0 {
			continue
		}
		row("")
		row("the last lines of " + c.ID + ":")
		for _, line := range c.LastLog {
			row("  " + printable(line))
		}
	}
}

// writeImages prints what reservations have of images.
func writeImages(row func(cells ...string), images []node.Image) {
	if len(images) == 0 {
		return
	}
	row("")
	row("IMAGE OF", "REFERENCE", "DIGEST", "SIZE", "STATE")
	for _, i := range images {
		row(i.Label, printable(i.Reference), cmp.Or(shortDigest(i.Digest), "-"), inMiB(i.Size), progress(i))
	}
}

func progress(i node.Image) string {
	switch {
	case i.Ready:
		return "ready"
	case i.Unpacking:
		return "unpacking"
	case i.Total > 0:
		return inMiB(i.Done) + " of " + inMiB(i.Total)
	}
	return inMiB(i.Done) + " so far"
}

// exit is how the container last ended by itself.
func exit(c node.ContainerInfo) string {
	if c.Ended == 0 {
		return "-"
	}
	return fmt.Sprintf("%d, %s", c.ExitCode, at(c.Ended))
}

// at is a time in Unix nanoseconds, 0 for none.
func at(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

// shortDigest is what people tell digests apart by.
func shortDigest(digest string) string {
	const most = len("sha256:") + 12
	if len(digest) > most {
		return digest[:most]
	}
	return digest
}

// printable is text without what a terminal would obey: users' programs write
// whatever they like.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case !unicode.IsPrint(r):
			return '.'
		}
		return r
	}, text)
}

func inMiB(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
