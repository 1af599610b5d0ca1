package logs

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// endedFile says beside the logs that nothing more will come.
const endedFile = "ended"

// checkID refuses text that can't be a container's ID, or could leave a folder.
func checkID(id string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`).MatchString(id) {
		return node.Errorf(node.Invalid, "cannot use %q as the ID of a container: it must be 1 to 128 letters, digits, dots, dashes or underscores and begin with a letter or digit", id)
	}
	return nil
}

// place is where the parts of one container are.
type place struct {
	fifos string // {run}/log/c/ID
	files string // {logs}/ID
}

// userFile says beside the FIFOs whose container it is, for the next carrier.
const userFile = "user"

// make makes the folder of the FIFOs, and notes whose they are.
func (p place) make(user string) error {
	if err := os.MkdirAll(p.fifos, 0o700); err != nil {
		return errors.Wrap(err, "cannot make a folder for FIFOs")
	}
	if user == "" {
		return nil
	}
	return errors.Wrap(os.WriteFile(filepath.Join(p.fifos, userFile), []byte(user), 0o600), "cannot record the owner of FIFOs")
}

// user is the owner of the container. One without a known owner counts for itself.
func (p place) user() string {
	text, err := os.ReadFile(filepath.Join(p.fifos, userFile))
	if err != nil || len(text) == 0 {
		return "container " + filepath.Base(p.fifos)
	}
	return string(text)
}

func (p place) paths() FIFOs {
	return FIFOs{Stdout: filepath.Join(p.fifos, stdout), Stderr: filepath.Join(p.fifos, stderr)}
}

// container is one whose output is read.
type container struct {
	id      string
	place   place
	quota   *quota
	files   *files
	streams []*stream
	log     zerolog.Logger

	ctx   context.Context //nolint:containedctx // it says that reading has to end
	stop  context.CancelFunc
	ended chan struct{}
}

// openContainer creates missing FIFOs, spools and files, finishes the writes of an
// earlier carrier, and begins to read.
func openContainer(id string, p place, b limits, log zerolog.Logger) (*container, error) {
	files, err := openFiles(p.files, b.size, b.files)
	if err != nil {
		return nil, err
	}
	c := &container{id: id, place: p, quota: b.scheduler.of(p.user()), files: files, log: log.With().Str("id", id).Logger(), ended: make(chan struct{})}
	for _, name := range []string{stdout, stderr} {
		s, err := c.openStream(name, b)
		if err != nil {
			c.close()
			return nil, err
		}
		c.streams = append(c.streams, s)
	}
	if err := c.begin(b); err != nil {
		c.close()
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c.ctx, c.stop = ctx, stop
	var wg sync.WaitGroup
	for _, s := range c.streams {
		wg.Go(func() {
			b.await(ctx)
			s.run(ctx)
		})
	}
	go func() {
		wg.Wait()
		close(c.ended)
	}()
	return c, nil
}

// begin finishes the writes of an earlier carrier. It needs no turn: only streams
// that had one were writing, and there are few of these.
func (c *container) begin(b limits) error {
	if err := os.Remove(filepath.Join(c.place.files, endedFile)); err != nil && !os.IsNotExist(err) {
		return errors.Wrap(err, "cannot reopen logs")
	}
	for _, s := range c.streams {
		if err := s.recover(); err != nil {
			// A disk that takes nothing now may do so later.
			c.log.Warn().Err(err).Str("stream", s.name).Msg("cannot finish a write of an earlier carrier: its output is lost")
		}
	}
	if err := c.files.mend(); err != nil {
		c.log.Warn().Err(err).Msg("cannot mend the torn last line of a log")
	}
	if err := c.files.remove(c.files.number - int64(b.files)); err != nil {
		c.log.Warn().Err(err).Msg("cannot remove old logs")
	}
	return nil
}

// end stops reading. The contents of FIFOs and spools stay for the next carrier,
// unless all has to be written now. It fails when a disk doesn't answer.
func (c *container) end(ctx context.Context, all bool) error {
	for _, s := range c.streams {
		s.all.Store(all)
	}
	c.stop()
	select {
	case <-c.ended:
		c.close()
		return nil
	case <-ctx.Done():
		return node.Errorf(node.Busy, "cannot wait for the logs of %s: its disk doesn't answer", c.id)
	}
}

// remove removes the FIFOs, and the files unless they are kept.
func (p place) remove(keepFiles bool) error {
	if err := os.RemoveAll(p.fifos); err != nil {
		return errors.Wrap(err, "cannot remove FIFOs")
	}
	if !keepFiles {
		return errors.Wrap(os.RemoveAll(p.files), "cannot remove logs")
	}
	err := os.WriteFile(filepath.Join(p.files, endedFile), nil, 0o600)
	if os.IsNotExist(err) {
		return nil
	}
	return errors.Wrap(err, "cannot end logs")
}

// whole reports whether its FIFOs are those that are read.
func (c *container) whole() bool {
	for _, s := range c.streams {
		now, err := os.Lstat(filepath.Join(c.place.fifos, s.name))
		mine, merr := s.fifo.Stat()
		if err != nil || merr != nil || c.ctx.Err() != nil || !os.SameFile(now, mine) {
			return false
		}
	}
	return true
}

func (c *container) close() {
	for _, s := range c.streams {
		s.close()
	}
	c.files.close()
	c.quota.release()
}

// openFIFO opens one, and makes it when it isn't there. It is open for both
// reading and writing: it lives on when the writers end, and the next writer
// needn't wait to open it.
func openFIFO(path string) (*os.File, error) {
	err := unix.Mkfifo(path, 0o600)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, errors.Wrapf(err, "cannot make FIFO %s", path)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errors.Wrapf(err, "cannot open FIFO %s", path)
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Mode&unix.S_IFMT != unix.S_IFIFO {
		_ = unix.Close(fd)
		return nil, node.Errorf(node.Exist, "cannot use %s: it is no FIFO", path)
	}
	return os.NewFile(uintptr(fd), path), nil
}
