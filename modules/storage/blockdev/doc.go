// Package blockdev examines block devices before they become pools (their
// content, whether they are in use, whether they rotate), and formats them. Its
// caller decides whether a device may be formatted.
package blockdev
