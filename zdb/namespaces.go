package zdb

import (
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/zdb/store"
)

const (
	textBroken   = "Namespace is damaged, see the log of the server"
	textNotFound = "Namespace not found"
)

// load opens all namespaces that have a folder, and makes default.
func (s *Server) load() error {
	numbers, left, err := s.folders.numbers()
	if err != nil {
		return err
	}
	s.remover.add(left...)
	for _, number := range numbers {
		if err := s.loadOne(number); err != nil {
			return err
		}
	}
	if len(s.slots) == 0 || s.slots[0] == nil {
		_, err = s.create(0, defaultName)
	}
	return err
}

// loadOne opens the namespace in a folder. One that can't be read is left out and
// keeps its number; only what concerns all of them is an error.
func (s *Server) loadOne(number int) error {
	log := s.log.With().Int("number", number).Str("folder", s.folders.of(number)).Logger()
	d, err := readDescriptor(s.folders.of(number))
	if err == nil && s.names[d.Name] != nil {
		err = errors.Errorf("cannot open namespace %q: folder %s has it too", d.Name, s.folders.of(s.names[d.Name].number))
	}
	if err == nil && (number == 0) != (d.Name == defaultName) {
		err = errors.Errorf("cannot open namespace %q: folder 0 is for %q", d.Name, defaultName)
	}
	if err != nil && number > 0 {
		s.taken[number] = true
		log.Error().Err(err).Msg("a namespace is damaged: it is left out, and its folder stays as it is")
		return nil
	}
	if err != nil {
		log.Error().Err(err).Msg("namespace default is damaged: its commands are refused, and its folder stays as it is")
		ns := &namespace{descriptor: descriptor{Name: defaultName, Mode: ModeUser}}
		ns.has(nil)
		s.add(ns)
		return nil
	}
	if d.Compat != s.cfg.Compat {
		return errors.Errorf("cannot open namespace %q with compat %s: its data was made with %s", d.Name, s.cfg.Compat, d.Compat)
	}
	others, err := s.folders.others(number, d.Generation)
	if err != nil {
		return err
	}
	s.remover.add(others...)
	ns := &namespace{number: number, descriptor: d}
	if err := s.openStore(ns); err != nil {
		ns.has(nil)
		log.Error().Err(err).Str("namespace", d.Name).Msg("a namespace is damaged: its commands are refused")
	}
	s.add(ns)
	return nil
}

// add makes a namespace one that is there.
func (s *Server) add(ns *namespace) {
	for len(s.slots) <= ns.number {
		s.slots = append(s.slots, nil)
	}
	s.slots[ns.number] = ns
	s.names[ns.Name] = ns
}

// create makes a namespace with its folder and data.
func (s *Server) create(number int, name string) (*namespace, error) {
	mode := s.cfg.Mode
	if mode == "" {
		mode = ModeUser
	}
	ns := &namespace{number: number, descriptor: descriptor{Name: name, Mode: mode, Compat: s.cfg.Compat, Generation: 1}}
	if err := s.folders.make(number, ns.descriptor); err != nil {
		return nil, err
	}
	if err := s.openStore(ns); err != nil {
		gone, e := s.folders.drop(number)
		if e != nil {
			s.log.Error().Err(e).Msg("cannot take a namespace away that wasn't made")
			s.taken[number] = true
		}
		s.remover.add(gone...)
		return nil, err
	}
	s.add(ns)
	s.count.written += uint64(s.dialect.layout.DataHeader)
	s.count.indexed += 2 * uint64(s.dialect.layout.IndexHeader)
	return ns, nil
}

// openStore opens the data of a namespace.
func (s *Server) openStore(ns *namespace) error {
	st, err := store.Open(s.storeConfig(ns, ns.descriptor))
	if err != nil {
		return err
	}
	ns.has(st)
	return nil
}

// free is the lowest number that no namespace has.
func (s *Server) free() int {
	for number := 1; ; number++ {
		if s.taken[number] {
			continue
		}
		if number >= len(s.slots) || s.slots[number] == nil {
			return number
		}
	}
}

func (s *Server) nsnew(c *session, args [][]byte) {
	name := args[1]
	switch {
	case len(name) > mostName:
		c.fail("Namespace too long")
		return
	case !validName(name):
		c.fail("This name is not allowed")
		return
	case s.names[string(name)] != nil:
		c.fail("This namespace is not available")
		return
	case len(s.names) >= s.cfg.MaxNamespaces:
		c.fail("Too many namespaces on this server")
		return
	}
	ns, err := s.create(s.free(), string(name))
	if err != nil {
		s.log.Error().Err(err).Str("namespace", string(name)).Msg("cannot make a namespace")
		c.fail("Could not create namespace")
		return
	}
	s.hooks.run("namespace-created", ns.Name)
	c.ok()
}

func (s *Server) nsdel(c *session, args [][]byte) {
	if len(args[1]) > mostName {
		c.fail("Namespace too long")
		return
	}
	ns := s.names[string(args[1])]
	switch {
	case string(args[1]) == defaultName:
		c.fail("Cannot remove default namespace")
		return
	case ns == nil:
		c.fail("This namespace doesn't exists")
		return
	case ns == c.ns:
		c.fail("Cannot remove namespace you're currently using.")
		return
	}
	gone, err := s.folders.drop(ns.number)
	s.remover.add(gone...)
	if err != nil && len(gone) == 0 {
		s.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot remove a namespace")
		c.fail("Could not delete this namespace")
		return
	}
	if err != nil {
		s.log.Error().Err(err).Str("namespace", ns.Name).Msg("not all of a namespace is removed")
	}
	s.forget(ns)
	s.hooks.run("namespace-deleted", ns.Name)
	c.ok()
}

// forget ends a namespace whose folders are taken away. Who waits in it hears of
// it now, the other clients in it with their next command.
func (s *Server) forget(ns *namespace) {
	ns.gone = true
	delete(s.names, ns.Name)
	s.slots[ns.number] = nil
	for len(ns.waiting) > 0 {
		c := ns.waiting[0]
		s.endWait(c)
		c.fail(textRemoved)
		c.conn.CloseAfter()
		c.conn.Release()
	}
	s.abandon(ns)
}

// abandon closes a store that nobody needs any more.
func (s *Server) abandon(ns *namespace) {
	if ns.store == nil {
		return
	}
	ns.store.Discard()
	ns.has(nil)
}

// flush is FLUSH: it empties the namespace, at once and for good.
func (s *Server) flush(c *session, _ [][]byte) {
	ns := c.ns
	switch {
	case !ns.Private || ns.Password == "":
		c.fail("Flushing public namespace denied")
	case ns.broken() && !c.writable:
		c.fail(textReadOnly)
	case !ns.broken() && !writes(c):
	case ns.Worm:
		c.fail("Cannot flush a namespace in worm mode")
	default:
		if err := s.renew(ns, ns.Mode); err != nil {
			s.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot flush a namespace")
			c.fail(textInternal)
			return
		}
		c.ok()
	}
}

// renew gives a namespace empty data, of the given mode.
func (s *Server) renew(ns *namespace, mode string) error {
	d := ns.descriptor
	d.Generation++
	d.Mode = mode
	if err := s.folders.makeGeneration(ns.number, d.Generation); err != nil {
		return err
	}
	st, err := store.Open(s.storeConfig(ns, d))
	if err != nil {
		return err
	}
	// From here on it is the new one that counts.
	if err := d.write(s.folders.of(ns.number)); err != nil {
		st.Discard()
		return err
	}
	s.abandon(ns)
	old := ns.Generation
	ns.descriptor = d
	ns.has(st)
	gone, err := s.folders.dropGeneration(ns.number, old)
	s.remover.add(gone...)
	if err != nil {
		s.log.Error().Err(err).Str("namespace", ns.Name).Msg("not all of the old data is removed: it is after the next start")
	}
	return nil
}

// reload closes a namespace and opens it again, from disk.
func (s *Server) reload(c *session, args [][]byte) {
	ns := s.named(c, args[1])
	if ns == nil {
		return
	}
	if !ns.broken() {
		// Others may wait for what this round wrote.
		if err := ns.store.Flush(); err != nil {
			s.unwritten(ns, err)
			s.lost = err
		}
		if err := ns.store.Close(); err != nil {
			s.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot close a namespace to reload it")
		}
		ns.has(nil)
	}
	d, err := readDescriptor(s.folders.of(ns.number))
	if err == nil && d.Name == ns.Name && d.Compat == s.cfg.Compat {
		ns.descriptor = d
		err = s.openStore(ns)
	}
	if err != nil || ns.broken() {
		s.log.Error().Err(err).Str("namespace", ns.Name).Msg("a namespace is damaged: its commands are refused")
		c.fail(textBroken)
		return
	}
	s.hooks.run("namespace-reloaded", ns.Name)
	c.ok()
}

// named is the namespace of a name; nil after it answered that there is none.
func (s *Server) named(c *session, name []byte) *namespace {
	if len(name) > mostName {
		c.fail("Namespace too long")
		return nil
	}
	ns := s.names[string(name)]
	if ns == nil {
		c.fail(textNotFound)
	}
	return ns
}

func (s *Server) nslist(c *session, _ [][]byte) {
	n := 0
	for _, ns := range s.slots {
		if c.hears(ns) {
			n++
		}
	}
	c.array(n)
	for _, ns := range s.slots {
		if c.hears(ns) {
			c.text(ns.Name)
		}
	}
}

// hears says whether c is told of a namespace: who isn't an admin is told of
// public ones, and of the one that it is in.
func (c *session) hears(ns *namespace) bool {
	return ns != nil && (c.admin || !ns.Private || ns == c.ns)
}
