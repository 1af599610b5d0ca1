package image

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/backoff"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// Bytes bounds an image that is fetched, Files an artifact's files, Documents its manifest.
var (
	Bytes     = limit.Limit{Name: "vm-image-bytes", Per: "image", Each: 4 << 30, Unit: limit.Bytes}
	Files     = limit.Limit{Name: "vm-image-files", Per: "image", Each: 16}
	Documents = limit.Limit{Name: "vm-image-document-bytes", Per: "document", Each: 64 << 10, Unit: limit.Bytes}
	// Speed is the least that must come of a file: else the connection is given up, and the file continued over
	// another one.
	Speed = limit.Limit{Name: "vm-image-speed", Per: "minute", Each: 256 << 10, Unit: limit.Bytes}
)

// Config configures Images.
type Config struct {
	Source Source
	// Folder is where versions that were fetched lie. It is made when it is missing.
	Folder string
	// Registries says how registries, and the servers and stores of flists, are asked.
	Registries fetch.Config
	// Flists reads the databases of flists; only a source that is one needs it.
	Flists FlistReader
	// InUse returns the paths of all files that VMs have or will be started again with, and whether that is known of all VMs.
	InUse func() (paths []string, known bool)
	Times Times
	Clock clock.Clock
	Log   zerolog.Logger
	// Hook is called around changes of Folder; Space returns the free and all bytes of its file system. Both are for tests:
	// nil does nothing, and asks the kernel.
	Hook  atomicfile.Hook
	Space func() (free, total uint64, err error)
}

// FlistReader reads the flist in an open file: database.Reader. node.Refused when it can't be used.
type FlistReader interface {
	Read(ctx context.Context, file *os.File) (*flist.Flist, error)
}

// Times are pauses; those that are 0 have defaults.
type Times struct {
	// Look is how often a tag or a flist without a digest is looked at, and old versions are looked for, give or take a fifth; an hour.
	Look time.Duration
	// Lease is how long a version stays after Current returned it; an hour.
	Lease time.Duration
	// Retry are the pauses after failures that may be over soon, up to 5 minutes; Mistake those after a mistake of the
	// image or a full disk, up to an hour.
	Retry, Mistake backoff.Backoff
}

func (c Config) normal() (Config, error) {
	invalid := func(format string, args ...any) (Config, error) {
		return c, node.Errorf(node.Invalid, "cannot open the image of VMs: "+format, args...)
	}
	if c.InUse == nil {
		return invalid("InUse is missing")
	}
	if !filepath.IsAbs(c.Folder) {
		return invalid("Folder is %q, must be an absolute path", c.Folder)
	}
	if f := c.Source.flist; f.plain && !slices.Contains(c.Registries.PlainHTTP, f.host) {
		return invalid("it is at %s, which must be asked over https: image-plain-http doesn't list %s", f.url, f.host)
	}
	if c.Source.flist.url != "" && c.Flists == nil {
		return invalid("Flists is missing")
	}
	if c.Clock == nil {
		c.Clock = clock.System{}
	}
	t := &c.Times
	if t.Look == 0 {
		t.Look = time.Hour
	}
	if t.Lease == 0 {
		t.Lease = time.Hour
	}
	if t.Retry.Base == 0 {
		t.Retry = backoff.Backoff{Base: 2 * time.Second, Max: 5 * time.Minute}
	}
	if t.Mistake.Base == 0 {
		t.Mistake = backoff.Backoff{Base: time.Minute, Max: time.Hour}
	}
	return c, c.Registries.Validate()
}
