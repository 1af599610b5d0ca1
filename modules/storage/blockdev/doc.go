// Package blockdev looks at block devices before they become pools, and formats
// them: what is on one, whether somebody uses it, whether it rotates. It formats
// what it is told to; its caller decides whether that may be.
package blockdev
