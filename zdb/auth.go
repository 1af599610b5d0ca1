package zdb

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"
)

const (
	// mostWrong is how many wrong passwords a connection may try.
	mostWrong = 32
	hashSize  = 40

	textNoChallenge = "No CHALLENGE requested, secure authentication not available"
	textNotSecure   = "Only SECURE extra method supported"
	textHashLength  = "Invalid hash length"
	textFull        = "Too many connections in this namespace"
)

// auth makes c an admin's connection.
func (s *Server) auth(c *session, args [][]byte) {
	switch {
	case len(args) == 3 && s.cfg.Compat == CompatV2:
		s.authSecure(c, args)
	case len(args) != 2:
		c.fail("Unexpected arguments")
	case s.cfg.Compat == CompatV1 && len(args[1]) == 0:
		c.fail("Invalid argument")
	case s.cfg.Admin == "" && s.cfg.Compat == CompatV1:
		c.fail("Authentification disabled")
	case s.cfg.Admin == "":
		c.fail("Authentication disabled")
	case len(args[1]) == 0:
		c.fail("Invalid argument")
	case len(args[1]) > mostPassword:
		c.fail("Password too long")
	default:
		given := bytes.Clone(args[1])
		s.try(c, func() { s.becomeAdmin(c, same(given, s.cfg.Admin)) })
	}
}

// becomeAdmin answers AUTH.
func (s *Server) becomeAdmin(c *session, right bool) {
	if !right {
		s.wrong(c)
		return
	}
	admin := c.admin
	c.admin, c.authed = true, true
	if !c.stand(c.ns, c.writable, c.proven) {
		c.admin, c.authed = admin, false
		c.fail(textFull)
		return
	}
	c.ok()
}

// authSecure asks for a challenge, or answers one: the password itself doesn't
// pass the network.
func (s *Server) authSecure(c *session, args [][]byte) {
	switch {
	case len(args[1]) == 0 || len(args[2]) == 0:
		c.fail("Invalid argument")
	case !short("SECURE", args[1]):
		c.fail(textNotSecure)
	case short("CHALLENGE", args[2]):
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		c.challenge = hex.EncodeToString(random[:])
		c.line(c.challenge)
	case s.cfg.Admin == "":
		c.fail("Authentication disabled")
	case c.challenge == "":
		c.fail(textNoChallenge)
	case len(args[2]) != hashSize:
		c.fail(textHashLength)
	default:
		right := same(args[2], hashed(c.challenge, s.cfg.Admin))
		c.challenge = ""
		s.try(c, func() { s.becomeAdmin(c, right) })
	}
}

// selectNamespace moves c to another namespace. Whether it may write there is
// decided now, and for as long as it stays.
func (s *Server) selectNamespace(c *session, args [][]byte) {
	if len(args) < 2 {
		c.fail("Invalid argument")
		return
	}
	if len(args[1]) > mostName {
		c.fail("Namespace too long")
		return
	}
	ns := s.names[string(args[1])]
	if ns == nil {
		c.fail(textNotFound)
		return
	}
	switch password := s.passwordOf(ns); {
	case password == "", ns.number == 0 && c.conn.Admin:
		s.moveTo(c, ns, true, false)
	case len(args) < 3 && ns.Private:
		c.fail("Namespace protected and private")
	case len(args) < 3:
		s.moveTo(c, ns, false, false)
	default:
		s.selectWith(c, ns, args[2:])
	}
}

// moveTo moves c to a namespace, unless there is no place in it. proven says that
// it gave the namespace's password.
func (s *Server) moveTo(c *session, ns *namespace, writable, proven bool) {
	if ns.number == 0 && s.cfg.AdminSocket && !s.cfg.Protect && !c.admin {
		writable = false
	}
	if !c.stand(ns, writable, proven) {
		c.fail(textFull)
		return
	}
	c.ns, c.writable, c.proven = ns, writable, proven
	c.ok()
}

// passwordOf is what SELECT of ns asks for, "" for nothing.
func (s *Server) passwordOf(ns *namespace) string {
	if ns.number == 0 && s.cfg.Protect {
		return s.cfg.Admin
	}
	return ns.Password
}

// selectWith moves c to a namespace if what was given with SELECT is its password,
// and answers what is wrong with it if it isn't.
func (s *Server) selectWith(c *session, ns *namespace, given [][]byte) {
	plain := len(given) == 1 || s.cfg.Compat == CompatV1
	switch {
	case plain && len(given[0]) > 255:
		c.fail("Password too long")
	case plain:
		text := bytes.Clone(given[0])
		s.try(c, func() { s.selected(c, ns, func(password string) bool { return same(text, password) }) })
	case len(given) > 2:
		c.fail("Too many arguments")
	case !short("SECURE", given[0]):
		c.fail(textNotSecure)
	case c.challenge == "":
		c.fail(textNoChallenge)
	case len(given[1]) != hashSize:
		c.fail(textHashLength)
	default:
		hash := bytes.Clone(given[1])
		s.try(c, func() {
			s.selected(c, ns, func(password string) bool { return same(hash, hashed(c.challenge, password)) })
		})
	}
}

// selected answers SELECT with a password, which may have changed while it waited,
// as may the namespace.
func (s *Server) selected(c *session, ns *namespace, right func(password string) bool) {
	password := s.passwordOf(ns)
	switch {
	case ns.gone:
		c.fail(textNotFound)
	case password != "" && !right(password):
		s.wrong(c)
	default:
		s.moveTo(c, ns, true, password != "")
	}
}

// wrong answers a wrong password. Who tries too many is disconnected.
func (s *Server) wrong(c *session) {
	s.count.wrong++
	c.wrong++
	if !c.conn.Admin {
		s.tries.wrong(c.conn.Source(), s.now())
	}
	c.fail("Access denied")
	if c.wrong >= mostWrong {
		s.log.Warn().Str("namespace", c.ns.Name).Int("tries", c.wrong).Msg("a client is disconnected: too many wrong passwords")
		c.conn.CloseAfter()
	}
}

// same compares without telling by the time it takes where they differ.
func same(given []byte, want string) bool {
	a, b := sha256.Sum256(given), sha256.Sum256([]byte(want)) // so that lengths don't show either
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// hashed is what AUTH SECURE and SELECT SECURE want for a password.
func hashed(challenge, password string) string {
	sum := sha1.Sum([]byte(challenge + ":" + password))
	return hex.EncodeToString(sum[:])
}

// short says whether given is word or a beginning of it, in any case.
func short(word string, given []byte) bool {
	return len(given) > 0 && len(given) <= len(word) && strings.EqualFold(word[:len(given)], string(given))
}
