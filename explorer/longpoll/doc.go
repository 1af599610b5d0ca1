// Package longpoll holds the requests that wait for a node's next change: it wakes them, bounds
// their number, and tells the node's own polls from others.
//
// It keeps everything in memory, and neither reads the database nor writes an answer.
package longpoll
