// Package strictjson reads JSON of unknown senders: only texts that every library
// reads alike, within limits, at a cost that is linear in their size; and writes
// their canonical form. It owns nothing.
package strictjson
