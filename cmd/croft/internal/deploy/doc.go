// Package deploy carries a plan out: it signs, pushes, deletes, renews and
// waits, and keeps the state current at every step. What it decides, it decides
// by package plan; what it believes, it believes by package verdict.
package deploy
