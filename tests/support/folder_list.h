/* What is in a folder. */
#ifndef CLATTN_TESTS_SUPPORT_FOLDER_LIST_H
#define CLATTN_TESTS_SUPPORT_FOLDER_LIST_H

/* The names in it, in order; who asks frees each, and the list. Returns how many; -1, errno and no list where the
 * folder cannot be read. */
int folder_list(const char *folder, char ***names);

#endif
