package server

import (
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
	case !same(args[1], s.cfg.Admin):
		s.wrong(c)
	default:
		c.admin = true
		c.ok()
	}
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
	case !same(args[2], hashed(c.challenge, s.cfg.Admin)):
		c.challenge = ""
		s.wrong(c)
	default:
		c.challenge = ""
		c.admin = true
		c.ok()
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
		c.fail("Namespace not found")
		return
	}
	writable := true
	switch password := s.passwordOf(ns); {
	case password == "":
	case ns.number == 0 && c.conn.Admin:
	case len(args) < 3 && ns.Private:
		c.fail("Namespace protected and private")
		return
	case len(args) < 3:
		writable = false
	case !s.selects(c, password, args[2:]):
		return
	}
	if ns.number == 0 && s.cfg.AdminSocket && !s.cfg.Protect && !c.admin {
		writable = false
	}
	c.ns, c.writable = ns, writable
	c.ok()
}

// passwordOf is what SELECT of ns asks for, "" for nothing.
func (s *Server) passwordOf(ns *namespace) string {
	if ns.number == 0 && s.cfg.Protect {
		return s.cfg.Admin
	}
	return ns.Password
}

// selects checks what was given with SELECT, and answers what is wrong with it.
func (s *Server) selects(c *session, password string, given [][]byte) bool {
	switch {
	case len(given) == 1 || s.cfg.Compat == CompatV1:
		if len(given[0]) > 255 {
			c.fail("Password too long")
			return false
		}
		if !same(given[0], password) {
			s.wrong(c)
			return false
		}
		return true
	case len(given) > 2:
		c.fail("Too many arguments")
	case !short("SECURE", given[0]):
		c.fail(textNotSecure)
	case c.challenge == "":
		c.fail(textNoChallenge)
	case len(given[1]) != hashSize:
		c.fail(textHashLength)
	case !same(given[1], hashed(c.challenge, password)):
		s.wrong(c)
	default:
		return true
	}
	return false
}

// wrong answers a wrong password. Who tries too many is disconnected.
func (s *Server) wrong(c *session) {
	s.count.wrong++
	c.wrong++
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
