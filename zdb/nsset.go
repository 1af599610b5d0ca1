package zdb

const mostValue = 63

// nsset changes a property of a namespace. All but lock and freeze outlive the
// process.
func (s *Server) nsset(c *session, args [][]byte) {
	name, property, value := args[1], string(args[2]), args[3]
	v2 := s.cfg.Compat == CompatV2
	switch {
	case len(name) > mostName:
		c.fail("Namespace too long")
		return
	case len(value) > mostValue && v2:
		c.fail("Argument too long")
		return
	case len(value) > mostValue:
		c.fail("Invalid value")
		return
	}
	passing := v2 && (property == "lock" || property == "freeze")
	if string(name) == defaultName && !passing {
		c.fail("Cannot update default namespace")
		return
	}
	ns := s.named(c, name)
	switch {
	case ns == nil:
	case passing:
		ns.pass(property, value[0] == '1')
		c.ok()
	case property == "mode" && v2:
		s.nssetMode(c, ns, string(value))
	default:
		s.nssetKept(c, ns, property, value)
	}
}

// pass sets what ends with the process.
func (ns *namespace) pass(property string, on bool) {
	if property == "lock" {
		ns.locked = on
		return
	}
	ns.frozen = on
	ns.has(ns.store)
}

// nssetKept sets what the descriptor has.
func (s *Server) nssetKept(c *session, ns *namespace, property string, value []byte) {
	d := ns.descriptor
	switch property {
	case "maxsize":
		n := number(value)
		if n < 0 {
			c.fail("Invalid value")
			return
		}
		d.MaxSize = uint64(n)
	case "password":
		d.Password = string(value)
		if d.Password == "*" {
			d.Password = ""
		}
	case "public":
		d.Private = value[0] != '1'
	case "worm":
		d.Worm = value[0] == '1'
	default:
		c.fail("Invalid property")
		return
	}
	if err := d.write(s.folders.of(ns.number)); err != nil {
		s.log.Error().Err(err).Str("namespace", ns.Name).Str("property", property).Msg("cannot change a namespace")
		c.fail(textInternal)
		return
	}
	ns.descriptor = d
	if property == "maxsize" && !ns.broken() {
		ns.store.SetMaxSize(d.MaxSize)
	}
	s.hooks.run("namespace-updated", ns.Name)
	c.ok()
}

// nssetMode changes what keys are, while there never was one.
func (s *Server) nssetMode(c *session, ns *namespace, mode string) {
	switch {
	case s.cfg.Mode != "":
		c.fail("This server instance is configured to use a single runtime mode")
	case ns.broken():
		c.fail(textBroken)
	case !ns.fresh():
		c.fail("Cannot change mode of used namespace")
	case mode != ModeUser && mode != ModeSequential:
		c.fail("Invalid property value (expected: user, seq)")
	case mode == ns.Mode:
		c.ok()
	default:
		if err := s.renew(ns, mode); err != nil {
			s.log.Error().Err(err).Str("namespace", ns.Name).Msg("cannot change the mode of a namespace")
			c.fail(textInternal)
			return
		}
		s.hooks.run("namespace-updated", ns.Name)
		c.ok()
	}
}
