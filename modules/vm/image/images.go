package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// Images has the image that Kubernetes VMs boot. It implements node.VMImages, and is safe for concurrent use.
type Images struct {
	cfg    Config
	shelf  *shelf
	origin origin
	// folder is the operator's own; nil without one.
	folder *vmimage.Folder
	// wake has a token when Run needn't wait for its next round.
	wake chan struct{}

	// ctx ends with Close.
	ctx    context.Context //nolint:containedctx // the object's life
	cancel context.CancelFunc

	mu    sync.Mutex
	state state
}

var _ node.VMImages = (*Images)(nil)

// state is what is known of an image that is fetched. Images.mu guards it.
type state struct {
	// using is the version that VMs boot now; nil when there is none.
	using *version
	// damaged is a version whose files aren't what they were, empty when there is none; damage the time since the machine's
	// boot from which another one is fetched again at once.
	damaged digest.Digest
	damage  time.Duration
	// leases are the times since the machine's boot until which versions stay, whoever has them.
	leases map[digest.Digest]time.Duration
	// fetching is set while a version is fetched, of which done bytes of total are here.
	fetching    bool
	done, total int64
	// failure is the error of the last round, of a folder that of the last reading; next is the time of the next round.
	failure string
	next    time.Time
}

// version is one version of an image, whole on the node.
type version struct {
	digest digest.Digest
	name   string
	folder *vmimage.Folder
}

// Open finds what an earlier process has fetched. It asks nobody, and changes nothing: Run does.
func Open(c Config) (*Images, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	m := &Images{cfg: c, shelf: newShelf(c), wake: make(chan struct{}, 1)}
	if m.origin, err = newOrigin(c, m.shelf); err != nil {
		return nil, err
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if c.Source.folder != "" {
		m.folder = vmimage.Open(c.Source.folder)
	}
	versions, err := m.shelf.versions()
	if err != nil {
		return nil, err
	}
	// A boot may be under way that an earlier process has named one to.
	m.state.leases = map[digest.Digest]time.Duration{}
	for _, d := range versions {
		m.state.leases[d] = c.Clock.Boot() + c.Times.Lease
	}
	if d := m.known(); d != "" {
		if v, err := m.open(d); err == nil {
			m.state.using = v
		}
	}
	return m, nil
}

// Close ends checks of files that are under way.
func (m *Images) Close() { m.cancel() }

// known is the version that the source led to when it was last asked, if it is here.
func (m *Images) known() digest.Digest {
	if d := m.cfg.Source.pinned(); d != "" && m.shelf.has(d) {
		return d
	}
	return m.shelf.current(m.cfg.Source.String())
}

// open reads the manifest of a whole version.
func (m *Images) open(d digest.Digest) (*version, error) {
	folder := vmimage.Open(m.shelf.folder(d))
	said, err := folder.Describe()
	return &version{digest: d, name: said.Version, folder: folder}, err
}

// Current implements node.VMImages.
func (m *Images) Current() (node.VMImage, error) {
	if m.folder != nil || m.cfg.Source.none() {
		folder := m.folder
		if folder == nil {
			folder = vmimage.Open("")
		}
		i, err := folder.Read(m.ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.state.failure = ""
		if err != nil {
			m.state.failure = err.Error()
		}
		return contractOf(i, ""), err
	}
	v, err := m.lease()
	if err != nil {
		return node.VMImage{}, err
	}
	i, err := v.folder.Read(m.ctx)
	if err == nil {
		return contractOf(i, v.digest), nil
	}
	// A disk that has lost a block answers with EIO, and btrfs with checksums never with other bytes.
	if _, gone := os.Lstat(filepath.Join(m.shelf.folder(v.digest), vmimage.Manifest)); node.KindOf(err) == node.Invalid || errors.Is(err, unix.EIO) || gone != nil {
		m.damaged(v, err)
	}
	return node.VMImage{}, node.WithKind(node.Transient, err)
}

func contractOf(i vmimage.Image, d digest.Digest) node.VMImage {
	return node.VMImage{
		Name: i.Name, Version: i.Version, Digest: d.String(), Kernel: i.Kernel, Initrd: i.Initrd, Root: i.Root, Arguments: i.Arguments,
	}
}

// lease returns the version that VMs boot now, which stays for a while. Transient when there is none.
func (m *Images) lease() (*version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.state.using
	if v == nil {
		return nil, node.Errorf(node.Transient, "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (%s)", m.state.progress())
	}
	m.state.leases[v.digest] = m.cfg.Clock.Boot() + m.cfg.Times.Lease
	return v, nil
}

// progress is how far the fetch is, for people.
func (s state) progress() string {
	const mib = 1 << 20
	switch {
	case s.fetching && s.total > 0:
		return fmt.Sprintf("%.1f of %.1f MiB", float64(s.done)/mib, float64(s.total)/mib)
	case !s.fetching && s.failure != "":
		return "the last try has failed, the next one is at " + s.next.UTC().Format(time.RFC3339)
	}
	return "its size isn't known yet"
}

// damaged has a version fetched again whose files aren't what they were: at once, but on a disk that damages all with the
// next round only.
func (m *Images) damaged(v *version, cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &m.state
	if s.using != v {
		return
	}
	m.cfg.Log.Error().Str("step", "vm image").Str("digest", v.digest.String()).Err(cause).Msg("the image of Kubernetes VMs is damaged: it is fetched again")
	s.using, s.damaged, s.failure = nil, v.digest, cause.Error()
	now := m.cfg.Clock.Boot()
	if now < s.damage {
		return
	}
	s.damage = now + m.cfg.Times.Look
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Status implements node.VMImages.
func (m *Images) Status() (node.VMImageStatus, error) {
	out := node.VMImageStatus{Reference: m.cfg.Source.String(), State: node.VMImageReady}
	switch {
	case m.cfg.Source.none():
		out.State = node.VMImageNone
		return out, nil
	case m.folder != nil:
		said, err := m.folder.Describe()
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err != nil:
			out.State, out.Error = node.VMImageFailed, err.Error()
		case m.state.failure != "": // the last machine found it so
			out.State, out.Error = node.VMImageFailed, m.state.failure
		}
		out.Version = said.Version
		return out, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.state
	if s.using != nil {
		out.Version, out.Digest = s.using.name, s.using.digest.String()
	}
	out.Error = s.failure
	switch {
	case s.fetching:
		out.State, out.Done, out.Total = node.VMImageFetching, uint64(s.done), uint64(s.total)
	case s.failure != "":
		out.State, out.Next = node.VMImageFailed, s.next.UnixNano()
	case s.using == nil:
		out.State = node.VMImageFetching
	}
	return out, nil
}
