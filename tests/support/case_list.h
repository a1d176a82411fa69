/* The cases of attention in a folder: other operations have no strategies to judge. */
#ifndef CLATTN_TESTS_SUPPORT_CASE_LIST_H
#define CLATTN_TESTS_SUPPORT_CASE_LIST_H

/* Their names in order, only that of `only` where it is not NULL; who asks frees each, and the list. A case whose
 * meta.json cannot be read is among them, and then fails. Returns how many; -1, errno and no list where the folder
 * cannot be read. */
int case_list_attention(const char *cases, const char *only, char ***names);

#endif
