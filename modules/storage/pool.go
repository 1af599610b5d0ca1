package storage

import (
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/storage/btrfs"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// kind is one of the two kinds of thing on a pool.
type kind struct {
	// what names it in messages, folder is where it lies, attribute its label.
	what      string
	folder    string
	attribute string
}

func filesystems() kind {
	return kind{what: "filesystem", folder: "volumes", attribute: filesystemLabel}
}

func vdisks() kind { return kind{what: "vdisk", folder: "vdisks", attribute: vdiskLabel} }

// pool is a btrfs on one device. What is on it is read from it each time.
type pool struct {
	name     string
	diskType workload.DeviceType
	// source is the path of its disk as the operator wrote it; empty for a loop file.
	source string
	path   string
	// uuid is the file system's: anything else in its place isn't the pool.
	uuid  string
	index index
	quota btrfs.Quota
	log   zerolog.Logger
	// failed is why it couldn't be opened; such a pool stays as it is until
	// the next start.
	failed error
	// tried is when mounting it again failed last, cause why; guarded by the module's mu.
	tried time.Time
	cause string
	// at tells the tests of each durable step.
	at func(step string) error

	// device is what it is mounted from, remounted how often since the start
	// it had to be mounted again; guarded by mu.
	mu        sync.Mutex
	device    string
	remounted uint64
}

// mountedFrom is the device, and how often the pool was mounted again.
func (p *pool) mountedFrom() (device string, again uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.device, p.remounted
}

func (p *pool) setDevice(device string, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.device = device
	if again {
		p.remounted++
	}
}

// open opens the pool's file system. Transient with the cause when the pool is
// broken, also since a moment ago.
func (p *pool) open() (*btrfs.FS, error) {
	if p.failed != nil {
		return nil, p.broken(p.failed)
	}
	f, err := p.mounted()
	if err != nil {
		return nil, p.broken(err)
	}
	return f, nil
}

// mounted opens what is mounted in the pool's place, if it is the pool. An
// unmounted one's folder may lie on another btrfs: that one isn't ours to write to.
func (p *pool) mounted() (*btrfs.FS, error) {
	f, err := btrfs.Open(p.path)
	if err != nil {
		return nil, err
	}
	uuid, err := f.UUID()
	if err == nil && uuid != p.uuid {
		err = errors.Errorf("another file system (UUID %s) is mounted on %s", uuid, p.path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// health says why the pool can't be written to; nil when it can.
func (p *pool) health() error {
	_, err := p.space()
	return err
}

func (p *pool) space() (btrfs.Space, error) {
	f, err := p.open()
	if err != nil {
		return btrfs.Space{}, err
	}
	defer f.Close()
	space, err := f.Space()
	if err == nil && space.ReadOnly {
		err = p.broken(errors.New("it became read-only after an error; the kernel's log says which"))
	}
	return space, err
}

// broken doesn't wrap its cause: that may be a NotExist, which callers forgive.
func (p *pool) broken(cause error) error {
	return node.Errorf(node.Transient, "pool %s is broken: %v", p.name, cause)
}

func (p *pool) folder(k kind) string             { return filepath.Join(p.path, k.folder) }
func (p *pool) place(k kind, name string) string { return filepath.Join(p.path, k.folder, name) }

// labels reads the names and labels of all of a kind.
func (p *pool) labels(k kind) (map[string]label, error) {
	entries, err := os.ReadDir(p.folder(k))
	if err != nil {
		return nil, btrfs.Wrap(err, "cannot list the %ss of pool %s", k.what, p.name)
	}
	labels := make(map[string]label, len(entries))
	for _, e := range entries {
		l, found, err := getLabel(p.place(k, e.Name()), k.attribute, e.Name())
		if err != nil {
			return nil, err
		}
		if found {
			labels[e.Name()] = l
		}
	}
	return labels, nil
}

// reserved is the sum of all sizes promised on the pool.
func (p *pool) reserved() (uint64, error) {
	var sum uint64
	for _, k := range []kind{filesystems(), vdisks()} {
		labels, err := p.labels(k)
		if err != nil {
			return 0, err
		}
		for _, l := range labels {
			sum = addSizes(sum, l.Size)
		}
	}
	return sum, nil
}

// status reads the pool for an operator.
func (p *pool) status() (node.Pool, error) {
	space, err := p.space()
	if err != nil {
		return node.Pool{}, err
	}
	reserved, err := p.reserved()
	device, again := p.mountedFrom()
	return node.Pool{
		Name: p.name, Path: p.path, DiskType: p.diskType, Devices: []string{device}, Remounted: again,
		Total: space.Total, Used: space.Used, Offered: offered(space), Reserved: reserved,
	}, err
}
