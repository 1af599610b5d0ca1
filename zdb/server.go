package zdb

import (
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb/loop"
	"github.com/croft-edge/croft/zdb/store"
)

const textRemoved = "Your active namespace is not available anymore (probably removed)."

// Server runs commands. Apart from Attach, Stats and Close, all of it is called
// on the loop's thread.
type Server struct {
	cfg     Config
	dialect dialect
	log     zerolog.Logger
	rare    zerolog.Logger // for what may happen with every command
	table   table
	loop    *loop.Loop // nil before Attach
	now     func() time.Time

	folders  *folders
	shared   *store.Shared // of all stores
	names    map[string]*namespace
	slots    []*namespace // by number; nil where there is none
	taken    map[int]bool // numbers of folders that can't be read
	remover  *remover
	hooks    *hooks
	sessions int
	memory   uint64 // of all keys' tables
	loading  bool

	// wrotes are the namespaces that have something to flush, busy those whose
	// stores have work to do beside.
	wrotes  []*namespace
	busy    []*namespace
	waiting []*session
	tries   tries
	// lost is why this round's writes failed, where that is known before Flush.
	lost error

	// rows and last are reused from one command to the next.
	rows, last []byte
	scanRows   int
	scanTime   time.Duration

	instance uint32
	boot     time.Time
	count    counters
}

// New opens the folders and all namespaces in them. A namespace that can't be
// opened is left out, which the log says; it keeps its folder. It fails when the
// folders can't be used, or another server has them.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.filled()
	s := &Server{
		cfg: cfg, log: cfg.Log, dialect: dialectOf(cfg.Compat), table: newTable(cfg.Compat),
		now:   time.Now,
		tries: tries{of: map[string]*source{}, pause: triesPause},
		names: map[string]*namespace{}, taken: map[int]bool{},
		scanRows: scanRows, scanTime: scanTime, boot: time.Now(), remover: &remover{log: cfg.Log},
	}
	s.rare = cfg.Log.Sample(&zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second})
	s.count.commands = make([]uint64, len(s.table.all))
	s.shared = store.NewShared(openFiles())
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	s.instance = binary.LittleEndian.Uint32(random[:])
	s.hooks = newHooks(cfg.Hook, s.instance, cfg.Log)
	var err error
	if s.folders, err = openFolders(cfg.Data, cfg.Index); err != nil {
		return nil, err
	}
	// The program may bring back what was lost, so it is waited for.
	s.hooks.run("namespaces-init", cfg.Index, cfg.Data)
	s.hooks.wait()
	s.loading = true
	err = s.load()
	s.loading = false
	if err != nil {
		return nil, errors.Wrap(closeAll(s, err), "cannot open the zdb")
	}
	s.hooks.run("ready")
	return s, nil
}

func closeAll(s *Server, err error) error {
	if e := s.Close(); e != nil {
		s.log.Error().Err(e).Msg("cannot close the zdb")
	}
	return err
}

// Attach says which loop it is that calls: for Stats. It is called before the
// loop runs.
func (s *Server) Attach(l *loop.Loop) { s.loop = l }

// Close ends hooks and closes all namespaces, once the loop has ended.
func (s *Server) Close() error {
	s.hooks.close()
	var first error
	for _, ns := range s.slots {
		if ns == nil || ns.broken() {
			continue
		}
		if err := ns.store.Close(); err != nil && first == nil {
			first = errors.Wrapf(err, "cannot close namespace %q", ns.Name)
		}
	}
	s.slots = nil
	s.remover.close()
	s.folders.close()
	return first
}

// Open begins a session, in default.
func (s *Server) Open(c *loop.Conn) {
	s.count.clients++
	s.sessions++
	se := &session{conn: c, ns: s.slots[0]}
	se.admin = c.Admin || s.cfg.Admin == "" && !s.cfg.AdminSocket
	se.writable = c.Admin || !s.cfg.Protect && !s.cfg.AdminSocket
	c.State = se
	se.stand(se.ns, se.writable, false)
}

// Closed ends a session.
func (s *Server) Closed(c *loop.Conn) {
	s.sessions--
	s.endWait(c.State.(*session))
	s.endTry(c.State.(*session))
	c.State = nil
}

// Command runs one request.
func (s *Server) Command(conn *loop.Conn, args [][]byte) {
	c := conn.State.(*session)
	if c.ns.gone {
		c.fail(textRemoved)
		conn.CloseAfter()
		return
	}
	cmd := s.table.find(args[0])
	if cmd == nil {
		s.count.unknown++
		c.fail("Command not supported")
		return
	}
	s.count.executed++
	s.count.commands[cmd.index]++
	if s.allowed(c, cmd, args) {
		cmd.run(s, c, args)
	}
	// What it read may have been written in this round, and be undone with it.
	if c.ns.wrote {
		conn.AwaitFlush()
	}
	if len(c.ns.waiting) > 0 {
		s.wake(c, cmd)
	}
}

// wrote says that c's namespace has something to flush.
func (s *Server) wrote(c *session) {
	if ns := c.ns; !ns.wrote {
		ns.wrote = true
		s.wrotes = append(s.wrotes, ns)
	}
}
