// Package croft turns a bare machine into an edge node that carries out signed
// reservations. It holds no code: see README.md, docs/flow.md, and the
// commands in cmd.
package croft
