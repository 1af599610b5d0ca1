// Package longpoll holds the requests that wait for a node's next change: who wakes them,
// how many may wait, and which of them are the node's own.
//
// It keeps everything in memory, and neither reads the database nor writes an answer.
package longpoll
